"""The format of the host's log: one line per record, for a person or as JSON, with values that look like secrets
removed.

The host logs through structlog; uvicorn and other libraries log through `logging`, which is redirected here.
"""

import importlib
import logging
import re
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Final, cast

from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.operate.log_files import LogFiles
from bollard.cli.terminal.columns import shorten


def load_without_rich() -> None:
    """Hide rich from structlog, which otherwise formats tracebacks with it. A host writes plain lines, and the import
    would cost every host 5 MiB. Later imports of rich still work."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # what Python says is not there
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]


load_without_rich()  # before anything imports structlog

import structlog  # noqa: E402

_SECRET_NAMES: Final = re.compile(
    r"token(?!s$)|secret|password|passwd|authorization|api_?key|cookie|credential|signature|ticket", re.IGNORECASE
)
"""`…tokens` counts tokens of a model."""
_SECRET_VALUES: Final = re.compile(
    r"bollard_[\w-]{20,}"  # the admin token
    r"|blk_\w+?_[\w-]{8,}"  # an API key
    r"|bls_[\w-]{8,}"  # a session's token
    r"|tkt_[\w-]{16,}"  # a stream ticket
    r"|(?<=Bearer )\S+|(?<=Basic )\S+"
    r"|(?<=bollard=)[^;,\s]+"  # a session's cookie
    r"|(?<=://)[^/@\s:]*:[^/@\s]+(?=@)"  # a password in a URL
    r"|(?<=token=)[^&\s]+|(?<=ticket=)[^&\s]+|(?<=key=)[^&\s]+|(?<=secret=)[^&\s]+|(?<=password=)[^&\s]+",
    re.IGNORECASE,
)
_DEPTH: Final = 8
"""The depth to which a value is checked; deeper parts are not shown."""
_BLANK: Final = "***"
_COLOURS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}

Event = MutableMapping[str, Any]


def configure_logs(
    level: str, *, for_people: bool, hidden: Callable[[Any], Any] = lambda value: value, files: LogFiles | None = None
) -> None:
    """Log records from `level` on to stderr, and as JSON to `files`; `hidden` removes known secrets from a value."""

    def scrubbed(logger: Any, method: str, event: Event) -> Event:
        del logger, method
        return hidden(event)

    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    last = _for_people(colours=sys.stderr.isatty()) if for_people else structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[
            _named,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            scrubbed,
            *(() if files is None else (_copy_into(files),)),
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=max(number, logging.WARNING), force=True)


def _copy_into(files: LogFiles) -> Any:
    render = structlog.processors.JSONRenderer(default=str)

    def copy(logger: Any, method: str, event: Event) -> Event:
        line = render(logger, method, event)
        files.write(line if isinstance(line, str) else line.decode())
        return event

    return copy


def without_secrets(logger: Any, method: str, event: Event) -> Event:
    """Remove values whose name or form is that of a secret."""
    del logger, method
    return {name: _blanked(name, value) for name, value in event.items()}


def _blanked(name: str, value: Any, depth: int = 0) -> Any:
    if _SECRET_NAMES.search(name) and value is not None:
        return _BLANK
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _SECRET_VALUES.sub(_BLANK, value)
    if isinstance(value, dict | list | tuple):
        if depth == _DEPTH:
            return _BLANK
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return {_blanked("", str(key)): _blanked(str(key), inner, depth + 1) for key, inner in items}
        return [_blanked(name, inner, depth + 1) for inner in cast("list[Any]", value)]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _SECRET_VALUES.sub(_BLANK, str(value))  # an exception, a path, a URL of some library


def _named(logger: Any, method: str, event: Event) -> Event:
    """The level. A record of a worker keeps its own level, because the host logs it for the worker."""
    del logger
    event.setdefault("level", method)
    return event


def _for_people(*, colours: bool) -> Any:
    def render(logger: Any, method: str, event: Event) -> str:
        del logger, method
        time, level, sentence = str(event.pop("timestamp"))[11:19], str(event.pop("level")), str(event.pop("event"))
        fields = [f"{name}={value}" for name, value in event.items() if value not in (None, {}, "")]
        line = shorten(" ".join([f"{time} {level}: {sentence}", *fields]), LINE_CHARACTERS)
        return f"{_COLOURS[level]}{line}\x1b[0m" if colours and level in _COLOURS else line

    return render


class _ToStructlog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)
