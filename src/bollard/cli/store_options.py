"""What commands on a store have in common: which store, who may use it meanwhile, and what can go wrong with it."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.errors import CheckFailed, CliError, UsageProblem

if TYPE_CHECKING:
    from bollard.host.errors import HostError
    from bollard.host.settings import Settings

__all__ = ["DataOption", "DatabaseOption", "chosen_store", "size_text", "store_problems"]

DataOption = Annotated[str | None, typer.Option("--data", metavar="DIR", help="up.option.data")]
"""As it was written: nothing is no place, and a path of nothing would be this folder."""
DatabaseOption = Annotated[str | None, typer.Option("--database", metavar="URL", help="up.option.database")]
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def chosen_store(data: str | None, database: str | None, *, there: bool = True) -> "Settings":
    """The settings, with what the command line says about the store. Its directory must be there unless told so."""
    from bollard.host.settings import read_settings

    settings = read_settings(os.environ, Path(), {"data": data, "database": database})
    if there and not settings.data.is_dir():
        raise UsageProblem("error.no_folder", "hint.no_data", path=settings.data)
    return settings


@contextmanager
def store_problems() -> Generator[None]:
    """What the store and its archives refuse, as the command line says it."""
    try:
        from bollard.host.errors import HostError
    except ImportError as error:
        raise _no_host(error) from error
    try:
        yield
    except ImportError as error:
        raise _no_host(error) from error
    except HostError as error:
        raise _problem(error) from error


def size_text(size: int) -> str:
    """Bytes as people read them."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _no_host(error: ImportError) -> CliError:
    if (error.name or "").startswith("bollard"):
        raise error
    return UsageProblem("error.no_host", "hint.no_host", module=error.name)


def _problem(error: "HostError") -> CliError:
    from bollard.cli.host_problems import problem_of

    match error.code:
        case "bad_archive":
            return CheckFailed("error.archive", "hint.host", detail=error.message, advice=error.hint)
        case "conflict" | "not_found":
            return UsageProblem("error.archive", "hint.host", detail=error.message, advice=error.hint)
        case _:
            return problem_of(error)
