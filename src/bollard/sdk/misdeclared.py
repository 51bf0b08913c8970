"""A declaration that cannot work: raised where it stands, or kept on its object while a plugin is loaded.

Raised at import, one bad runner would take every other runner of its module with it. Nothing is judged here.
"""

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from bollard.sdk.errors import DeclarationError

__all__ = ["declared", "keeping_faults", "misdeclared"]

D = TypeVar("D")
F = TypeVar("F")

_KEEPING: Final[ContextVar[bool]] = ContextVar("_KEEPING", default=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fault:
    target: object
    error: DeclarationError


@contextlib.contextmanager
def keeping_faults() -> Generator[None]:
    """Inside, a decorator keeps its `DeclarationError`, and `declaration_of` and `tool_declaration_of` raise it."""
    before = _KEEPING.set(True)
    try:
        yield
    finally:
        _KEEPING.reset(before)


def misdeclared(target: F, mark: str, error: DeclarationError) -> F:
    """Raise `error`, or keep it under `mark` and return the target as it is."""
    if not _KEEPING.get():
        raise error
    try:
        setattr(target, mark, _Fault(target=target, error=error))
    except (AttributeError, TypeError):  # nothing can be kept on a number or a built-in
        raise error from None
    return target


def declared(candidate: object, mark: str, kind: type[D]) -> D | None:
    """What stands under `mark`; raises the `DeclarationError` that was kept there."""
    found: object = getattr(candidate, mark, None)
    if isinstance(found, _Fault) and found.target is candidate:
        raise found.error
    return found if isinstance(found, kind) else None
