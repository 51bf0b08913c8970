"""Whether the arguments of a call are what its capability takes. Compiled once for each definition."""

import importlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bollard.host.actions.schema_steps import NotCountable, has_references, too_many_steps
from bollard.host.capabilities.capability import Capability
from bollard.host.errors import CapabilityDenied, InvalidRequest
from bollard.host.limits import SCHEMA_STEPS, VALIDATORS_KEPT
from bollard.protocol import JsonObject

__all__ = ["Validators"]

_ENGINE: Final = "bollard.host.actions.schema_engine"
_SHOWN: Final = 300
"""Characters of a problem that are told: it may quote the arguments."""


class _Ready(msgspec.Struct, frozen=True):
    problem: Callable[[JsonObject], tuple[str, str] | None]
    refers: bool


class Validators:
    """One per host. Keeps what was used last."""

    def __init__(self) -> None:
        self._ready: OrderedDict[str, _Ready | CapabilityDenied] = OrderedDict()

    def check(self, capability: Capability, arguments: JsonObject) -> None:
        """Raises `InvalidRequest` for arguments that the schema refuses, `CapabilityDenied` for a schema that cannot
        be checked: what nobody can check is not called."""
        ready = self._of(capability)
        if isinstance(ready, CapabilityDenied):
            raise ready
        if ready.refers:
            _refuse_endless(capability, arguments)
        found = ready.problem(arguments)
        if found is not None:
            field, problem = found
            where = f"arguments.{field}" if field else "arguments"
            raise InvalidRequest(
                f"{where}: {problem[:_SHOWN]}", hint="read the schema with tools.detail", field=where[:128]
            )

    def _of(self, capability: Capability) -> _Ready | CapabilityDenied:
        key = capability.definition_sha256
        if key not in self._ready:
            self._ready[key] = _made(capability)
            if len(self._ready) > VALIDATORS_KEPT:
                self._ready.popitem(last=False)
        self._ready.move_to_end(key)
        return self._ready[key]


def _made(capability: Capability) -> _Ready | CapabilityDenied:
    engine: Any = importlib.import_module(_ENGINE)  # by name: an idle host does without it
    try:
        validator = engine.compiled(capability.input_schema)
    except ValueError as error:
        return _uncheckable(capability, str(error).splitlines()[0])
    return _Ready(
        problem=lambda arguments: engine.problem_of(validator, arguments),
        refers=has_references(capability.input_schema),
    )


def _refuse_endless(capability: Capability, arguments: JsonObject) -> None:
    try:
        endless = too_many_steps(capability.input_schema, arguments, SCHEMA_STEPS)
    except NotCountable as error:
        raise _uncheckable(capability, str(error)) from None
    if endless:
        raise _uncheckable(capability, f"these arguments take more than {SCHEMA_STEPS} steps to check")


def _uncheckable(capability: Capability, problem: str) -> CapabilityDenied:
    return CapabilityDenied(
        f"the schema of {capability.name} cannot be checked: {problem[:_SHOWN]}",
        hint="ask whoever makes the tool for a simpler schema",
    )
