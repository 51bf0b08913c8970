"""`python -m bollard.local_model`: serves the model on 127.0.0.1, prints its base URL, and ends with a signal."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from bollard.local_model.settings import LocalModelProblem, LocalModelSettings, read_settings

_EXIT_PROBLEM: Final = 1
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM})


def start_server(settings: LocalModelSettings) -> Any:
    """The library's own server, with everything off that a host does not use: its pages, its slots, other origins."""
    try:
        library: Any = import_module("xllamacpp")
    except ImportError as error:
        raise LocalModelProblem("xllamacpp is not installed", hint="install bollard[local-model]") from error
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
    """Serve until a signal comes."""
    # Blocked before the library starts its threads, which inherit it: the signal waits for whoever asks for it.
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
