"""One call to the host: checks the parameters, sends the call and parses the answer."""

import base64
import binascii
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from bollard.protocol import ACTIONS, JsonObject, JsonValue, Shape, first_problem
from bollard.sdk.errors import api_failure

T = TypeVar("T", bound=Shape)


class ApiCaller(Protocol):
    """Sends the calls of one run to the host. Both methods raise `AgentAPIException`. Closing a stream cancels it."""

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        """Send one call and return its answer."""
        ...

    def stream(self, action: str, params: JsonObject) -> AsyncIterator[JsonValue]:
        """Send one call and yield its answer in chunks."""
        ...


class Namespace:
    """A family of calls."""

    __slots__ = ("_caller",)

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller

    async def _ask(self, action: str, answer: type[T], fields: Mapping[str, Any]) -> T:
        return parse_answer(action, answer, await self._caller.call(action, check_params(action, fields)))

    def _ask_stream(self, action: str, chunk: type[T], fields: Mapping[str, Any]) -> AsyncGenerator[T, None]:
        # Checked here instead of in the generator, so that the traceback shows the line of the wrong argument.
        return _read_stream(action, chunk, self._caller, check_params(action, fields))


def check_params(action: str, fields: Mapping[str, Any]) -> JsonObject:
    """Return the parameters as JSON. Raises `invalid_argument` with the field before anything is sent."""
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


def parse_answer(action: str, shape: type[T], value: JsonValue) -> T:
    """Validate the host's answer."""
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
            yield parse_answer(action, shape, chunk)
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def decode_content(action: str, content_base64: str) -> bytes:
    """Decode base64 text of the host."""
    try:
        return base64.b64decode(content_base64, validate=True)
    except binascii.Error as error:
        raise api_failure("runtime_error", f"the host's answer to {action} is not base64: {error}") from error
