"""`state.*`: JSON values by key, in the scopes of the run's grant. Versions and quotas are checked in the commit."""

import asyncio
from typing import Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.log.entries import ExpectationResult, StateExpectation
from bollard.host.log.records import encode_data
from bollard.host.run_api.pages import Cursors
from bollard.host.run_api.reach import key_page
from bollard.host.run_api.refusal import ApiRefused, check_key, write_down
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.store import Store
from bollard.protocol import (
    JsonObject,
    KeyPage,
    StateDelete,
    StateGet,
    StateList,
    StateScope,
    StateSet,
    StateValue,
    Written,
    limits,
)

STATE_TTL_S: Final = 10 * 365 * 24 * 3600
"""The longest time to live."""
_decode: Final = msgspec.json.Decoder().decode


class State:
    """Reads and writes state for runs. The grant determines the scopes."""

    def __init__(self, store: Store, clock: Clock, cursors: Cursors) -> None:
        self._store = store
        self._clock = clock
        self._cursors = cursors

    async def get(self, run: LiveRun, params: StateGet) -> StateValue:
        check_key(params.key)
        row = await asyncio.to_thread(self._store.state, _scope(run, params.scope), params.key, self._clock.now_ms())
        if row is None:
            raise ApiRefused("not_found", "this run has no such state value")
        run.take_in(row.flow)
        expires_at = None if row.expires_ms is None else row.expires_ms / 1000
        return StateValue(value=_decode(row.value), version=row.version, expires_at=expires_at)

    async def set(self, run: LiveRun, params: StateSet) -> Written:
        check_key(params.key)
        scope_key, size = _scope(run, params.scope), len(encode_data(params.value))
        if size > limits.STATE_VALUE_BYTES:
            message = f"value: {size} bytes exceed {limits.STATE_VALUE_BYTES}"
            raise ApiRefused("payload_too_large", message, details={"field": "value"})
        now_ms = self._clock.now_ms()
        data: JsonObject = {"scope": params.scope, "key": params.key, "value": params.value}
        expires_ms = None if params.ttl is None else now_ms + _life_ms(params.ttl)
        if expires_ms is not None:
            data["expires_ms"] = expires_ms
        size += len(params.key.encode())
        expects = _expectation(params, scope_key, size=size, expires_ms=expires_ms)
        result = await _write(run, "state.updated", data, expects)
        return Written(version=result.version, existed=result.existed)

    async def delete(self, run: LiveRun, params: StateDelete) -> Written:
        check_key(params.key)
        scope_key = _scope(run, params.scope)
        row = await asyncio.to_thread(self._store.state, scope_key, params.key, self._clock.now_ms())
        if row is None:
            if params.if_version:
                raise _other_version(0)
            return Written(existed=False)
        data: JsonObject = {"scope": params.scope, "key": params.key}
        expects = _expectation(params, scope_key, size=0)
        await _write(run, "state.deleted", data, expects)
        return Written(existed=True)

    async def keys(self, run: LiveRun, params: StateList) -> KeyPage:
        scope_key, store, now_ms = _scope(run, params.scope), self._store, self._clock.now_ms()
        return await key_page(
            run,
            self._cursors,
            ("state.list", scope_key),
            params,
            row=lambda key: store.state(scope_key, key, now_ms),
            rows=lambda key, count: store.states(scope_key, key, count, now_ms),
        )


def _scope(run: LiveRun, scope: StateScope) -> str:
    return run.grant.state_keys[scope]


def _life_ms(ttl: int) -> int:
    if ttl > STATE_TTL_S:
        raise ApiRefused("invalid_argument", f"ttl: is more than {STATE_TTL_S} seconds", details={"field": "ttl"})
    return ttl * 1000


def _expectation(
    params: StateSet | StateDelete, scope_key: str, *, size: int, expires_ms: int | None = None
) -> StateExpectation:
    """The condition of the write, and the `state.refused` record that is written if it fails."""
    refused: JsonObject = {"scope": params.scope, "key": params.key, "version": params.if_version, "size": size}
    return StateExpectation(
        record=0,
        otherwise=("state.refused", encode_data(refused)),
        scope_key=scope_key,
        key=params.key,
        version=params.if_version,
        size=size,
        quota=limits.STATE_SCOPE_BYTES,
        expires_ms=expires_ms,
    )


async def _write(run: LiveRun, kind: str, data: JsonObject, expects: StateExpectation) -> ExpectationResult:
    """Raises `ApiRefused` if the expectation is not met."""
    result = await write_down(run, kind, data, expects=expects)
    if result.unmet == "version":
        raise _other_version(result.version)
    if result.unmet == "quota":
        message = f"value: the scope would hold more than {limits.STATE_SCOPE_BYTES} bytes"
        raise ApiRefused("payload_too_large", message, details={"field": "value", "reason": "quota"})
    return result


def _other_version(version: int) -> ApiRefused:
    now = f"has version {version}" if version else "does not exist"
    details: JsonObject = {"field": "if_version", "reason": "version", "version": version}
    return ApiRefused("invalid_argument", f"if_version: the value {now}", details=details)
