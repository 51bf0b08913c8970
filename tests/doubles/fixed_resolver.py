"""A resolver that a test fills."""

import ipaddress
from collections.abc import Mapping, Sequence

from bollard.host.egress.addresses import Address


class FixedResolver:
    """Names and their addresses; each answer is given once, and the last one for ever."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if not answers:
            raise OSError(f"nobody knows {host}")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ipaddress.ip_address(text) for text in answer]
