"""From a name to its addresses: the system's resolver, or one that a test fills."""

import asyncio
import functools
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from bollard.host.egress.addresses import Address
from bollard.host.limits import EGRESS_LOOKUPS

__all__ = ["FixedResolver", "Resolver", "SystemResolver"]


class Resolver(Protocol):
    """Asked once for each hop: what it answers is what is judged, and what is connected to."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """Raises `OSError` where there are none."""
        ...


class SystemResolver:
    """What the machine is configured with. It blocks, and for a name whose server says nothing it does so for long
    after nobody waits any more: so it has threads of its own, and no file of the host waits for them."""

    def __init__(self, lookup: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> None:
        self._lookup = functools.partial(lookup, port=None, type=socket.SOCK_STREAM)
        self._threads = ThreadPoolExecutor(EGRESS_LOOKUPS, thread_name_prefix="lookup")

    async def addresses(self, host: str) -> Sequence[Address]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
        return list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


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
