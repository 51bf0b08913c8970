"""One call to the host: check the parameters, ask, read the answer. Which calls there are is in the `api_*` modules."""

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from bollard.protocol import ACTIONS, JsonObject, JsonValue, Shape, first_problem
from bollard.sdk.errors import api_failure

__all__ = ["ApiCaller", "Namespace", "decoded"]

T = TypeVar("T", bound=Shape)


class ApiCaller(Protocol):
    """The way to the host for one run. Both raise `AgentAPIException`; a stream is given up by closing it."""

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        """Ask once."""
        ...

    def stream(self, action: str, params: JsonObject) -> AsyncIterator[JsonValue]:
        """Ask once and be answered in pieces."""
        ...


class Namespace:
    """A family of calls."""

    __slots__ = ("_caller",)

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller

    async def _ask(self, action: str, answer: type[T], fields: Mapping[str, Any]) -> T:
        return read_answer(action, answer, await self._caller.call(action, checked_params(action, fields)))

    def _ask_stream(self, action: str, chunk: type[T], fields: Mapping[str, Any]) -> AsyncGenerator[T, None]:
        # Checked here and not at the first step, so that a wrong argument shows where it was written.
        return _read_stream(action, chunk, self._caller, checked_params(action, fields))


def checked_params(action: str, fields: Mapping[str, Any]) -> JsonObject:
    """The parameters as JSON; raises `invalid_argument` that names the field, before anything is sent."""
    shape = ACTIONS[action].params
    present = {
        name: value for name, value in fields.items() if value is not None or shape.model_fields[name].is_required()
    }
    try:
        return shape.model_validate(present).to_wire()
    except ValidationError as error:
        field, problem = first_problem(error)
        details: JsonObject = {"action": action, "field": field}
        raise api_failure("invalid_argument", f"{action}: {field}: {problem}", details) from error


def read_answer(action: str, shape: type[T], value: JsonValue) -> T:
    """The host's answer as its shape."""
    try:
        return shape.from_wire(value)
    except ValidationError as error:
        field, problem = first_problem(error)
        details: JsonObject = {"action": action, "field": field}
        message = f"the host's answer to {action} does not fit the protocol: {field}: {problem}"
        raise api_failure("runtime_error", message, details) from error


async def _read_stream(action: str, shape: type[T], caller: ApiCaller, params: JsonObject) -> AsyncGenerator[T, None]:
    chunks = caller.stream(action, params)
    try:
        async for chunk in chunks:
            yield read_answer(action, shape, chunk)
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def decoded(action: str, content_base64: str) -> bytes:
    """The bytes behind base64 text of the host."""
    try:
        return base64.b64decode(content_base64, validate=True)
    except binascii.Error as error:
        raise api_failure("runtime_error", f"the host's answer to {action} is not base64: {error}") from error
