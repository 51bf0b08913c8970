"""The run API over the in-memory world: the gates of every call, then the one handler of its action."""

import asyncio
import inspect
from collections.abc import AsyncGenerator
from typing import Any

from pydantic import ValidationError

from bollard.protocol import ACTIONS, RANGED_READS, JsonObject, JsonValue, Shape, Strict, first_problem, limits
from bollard.sdk.errors import AgentAPIException, api_failure
from bollard.sdk.testing.grant import Denials
from bollard.sdk.testing.handlers import handlers_of, streamed_reply
from bollard.sdk.testing.ledger import RunLedger
from bollard.sdk.testing.outcome import ApiRecord
from bollard.sdk.testing.stores import json_size
from bollard.sdk.testing.world import World

__all__ = ["Answers"]


class Answers:
    """Every action of the run API."""

    def __init__(self, world: World, denials: Denials) -> None:
        self._world = world
        self._denials = denials
        self._handlers = handlers_of(world)

    async def one(self, ledger: RunLedger | None, action: str, params: JsonObject) -> JsonValue:
        """Answer one call."""
        run, request = self._admitted(ledger, action, params, streamed=False)
        outcome = "given up"
        try:
            await asyncio.sleep(0)  # a real host is never done before the runner waits
            self._permitted(run, action, request)
            answer = self._handlers[action](run, request)
            shape = await answer if inspect.isawaitable(answer) else answer
            wire = _bounded(action, shape)
            outcome = "ok"
        except Exception as error:
            failure = _failure(action, error)
            outcome = failure.code
            raise failure from error
        else:
            return wire
        finally:
            self._settle(run, action, params, outcome)

    async def stream(
        self, ledger: RunLedger | None, action: str, params: JsonObject
    ) -> AsyncGenerator[JsonValue, None]:
        """Answer one streamed call, chunk by chunk."""
        run, request = self._admitted(ledger, action, params, streamed=True)
        outcome = "given up"
        try:
            await asyncio.sleep(0)
            self._permitted(run, action, request)
            for chunk in streamed_reply(self._world, request):
                yield chunk.to_wire()
                await asyncio.sleep(0)
            outcome = "ok"
        except Exception as error:
            failure = _failure(action, error)
            outcome = failure.code
            raise failure from error
        finally:
            self._settle(run, action, params, outcome)

    def _admitted(
        self, ledger: RunLedger | None, action: str, params: JsonObject, *, streamed: bool
    ) -> tuple[RunLedger, Any]:
        """The run and the checked parameters, or the refusal that a host would answer."""
        if ledger is None or ledger.closed or ledger.terminal is not None:
            raise api_failure("not_found", "no such active run")
        try:
            if action not in ACTIONS:
                raise api_failure("invalid_argument", f"there is no action {action}", {"field": "action"})
            if ACTIONS[action].streamed is not streamed:
                way = "a stream" if ACTIONS[action].streamed else "a plain call"
                raise api_failure("invalid_argument", f"{action} is {way}", {"field": "action"})
            if ledger.in_flight >= limits.CALLS_IN_FLIGHT:
                message = f"{limits.CALLS_IN_FLIGHT} calls of this run are unanswered; await some first"
                raise api_failure("rate_limited", message)
            request = _checked(action, params)
        except AgentAPIException as error:
            ledger.calls.append(ApiRecord(action, params, error.code))
            raise
        ledger.in_flight += 1
        return ledger, request

    def _permitted(self, run: RunLedger, action: str, request: Strict) -> None:
        self._denials.check(action)
        run.grant.check(action, request)

    def _settle(self, run: RunLedger, action: str, params: JsonObject, outcome: str) -> None:
        run.in_flight -= 1
        run.calls.append(ApiRecord(action, params, outcome))
        run.steering.happened(action)


def _checked(action: str, params: JsonObject) -> Strict:
    try:
        if json_size(params) > limits.CALL_BYTES:
            message = f"the parameters of {action} exceed {limits.CALL_BYTES} bytes"
            raise api_failure("payload_too_large", message)
        return ACTIONS[action].params.from_wire(params)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise api_failure("invalid_argument", f"{action}: {field}: {problem}", {"field": field}) from error
    except (TypeError, ValueError) as error:
        raise api_failure("invalid_argument", f"the parameters of {action} are not JSON: {error}") from error


def _bounded(action: str, answer: Shape) -> JsonObject:
    wire = answer.to_wire()
    if action not in RANGED_READS and json_size(wire) > limits.CALL_BYTES:
        raise api_failure("payload_too_large", f"the answer to {action} exceeds {limits.CALL_BYTES} bytes")
    return wire


def _failure(action: str, error: Exception) -> AgentAPIException:
    if isinstance(error, AgentAPIException):
        return error
    return api_failure("runtime_error", f"the script behind {action} failed: {type(error).__name__}: {error}")
