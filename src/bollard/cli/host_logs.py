"""How the host's log looks: one line for each record, for a person or as JSON. What looks like a secret is blanked.

The host logs through structlog; uvicorn and other libraries log through `logging` and are led to the same place.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from bollard.cli.columns import shorten
from bollard.cli.limits import LINE_CHARACTERS

__all__ = ["configure_logs"]

_SECRET_NAMES: Final = re.compile(
    r"token|secret|password|passwd|authorization|api_?key|cookie|credential", re.IGNORECASE
)
_SECRET_VALUES: Final = re.compile(r"bollard_[\w-]{20,}|(?<=Bearer )\S+|(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_BLANK: Final = "***"
_COLOURS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}

Event = MutableMapping[str, Any]


def configure_logs(level: str, *, for_people: bool) -> None:
    """Everything from `level` on goes to stderr."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    last = _for_people(colours=sys.stderr.isatty()) if for_people else structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[
            _named,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=max(number, logging.WARNING), force=True)


def without_secrets(logger: Any, method: str, event: Event) -> Event:
    """Blank what has the name or the look of a secret."""
    del logger, method
    return {name: _blanked(name, value) for name, value in event.items()}


def _blanked(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name) and value is not None:
        return _BLANK
    if isinstance(value, str):
        return _SECRET_VALUES.sub(_BLANK, value)
    if isinstance(value, dict):
        return {key: _blanked(str(key), inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def _named(logger: Any, method: str, event: Event) -> Event:
    """The level; a worker's own level stands, because its records come through one of ours."""
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
