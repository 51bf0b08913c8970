"""Wrappers around every adapter: time limit, retry, redaction of secrets, output limit. Each is itself an adapter."""

import asyncio
import secrets
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.actions.call import Ledger
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import HostError, OutcomeUnknown, ToolFailed
from bollard.host.grants.session import RunSession
from bollard.host.limits import ACTION_OUTPUT_BYTES, ACTION_PREVIEW_CHARACTERS, ACTION_RESULT_BYTES
from bollard.host.runs.results import artifact_id_of
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.protocol import JsonObject, JsonValue

_encode: Final = msgspec.json.Encoder().encode


def clean_error(redactor: Redactor, workspace: str, error: HostError) -> HostError:
    """The error without secrets: some errors quote their input. A cleaned error keeps its reason, not its details."""
    message = redactor.text(workspace, error.message)
    if message == error.message:
        return error
    return type(error)(message, reason=error.reason, hint=error.hint)


class TimeLimit:
    """Ends a call in time, with an error that says whether it may have taken effect."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    async def invoke(self, order: CallOrder) -> CallResult:
        # A called agent may wait for a person. The deadline of its own run ends it, and stands still meanwhile.
        within_s = None if order.capability.kind == "agent" else order.timeout_s
        try:
            async with asyncio.timeout(within_s):
                return await self._adapter.invoke(order)
        except TimeoutError:
            name = order.capability.name
            sentence = f"{name} did not end within {order.timeout_s:g} seconds"
            if order.capability.effects == "none":
                raise ToolFailed(
                    sentence, reason="timed_out", hint="request less at once", tool=name, seconds=order.timeout_s
                ) from None
            raise OutcomeUnknown(
                sentence,
                reason="timed_out",
                hint="check whether it took effect before you repeat it",
                tool=name,
                seconds=order.timeout_s,
            ) from None
        except HostError:
            raise
        except Exception as error:
            # The boundary to every adapter: a failing one must not fail its caller, and may have taken effect.
            raise OutcomeUnknown(
                f"{order.capability.name} failed: {type(error).__name__}",
                reason="adapter_failed",
                hint="see the host's log",
                tool=order.capability.name,
                problem=type(error).__name__,
            ) from error


class Retry:
    """Retries a repeatable call once if its outcome is unknown."""

    def __init__(self, adapter: Adapter, clock: Clock) -> None:
        self._adapter = adapter
        self._clock = clock

    async def invoke(self, order: CallOrder) -> CallResult:
        begun = self._clock.monotonic()
        try:
            return await self._adapter.invoke(order)
        except OutcomeUnknown:
            left_s = order.timeout_s - (self._clock.monotonic() - begun)
            if order.capability.effects == "at_most_once" or left_s <= 0:
                raise
            return await self._adapter.invoke(replace(order, timeout_s=left_s))


class Redaction:
    """Removes secrets from results and errors."""

    def __init__(self, adapter: Adapter, redactor: Redactor) -> None:
        self._adapter = adapter
        self._redactor = redactor

    async def invoke(self, order: CallOrder) -> CallResult:
        try:
            returned = await self._adapter.invoke(order)
        except HostError as error:
            cleaned = clean_error(self._redactor, order.context.workspace, error)
            if cleaned is error:
                raise
            raise cleaned from error.__cause__
        clean = self._clean
        return replace(
            returned,
            content=tuple(cast("list[JsonObject]", clean(order, [*returned.content]))),
            structured=clean(order, returned.structured),
            artifact_refs=tuple(cast("list[JsonObject]", clean(order, [*returned.artifact_refs]))),
        )

    def _clean(self, order: CallOrder, value: JsonValue) -> JsonValue:
        return self._redactor.value(order.context.workspace, value)


class OutputLimit:
    """Stores an output that is too large for a result as an artifact, and returns a preview."""

    def __init__(self, adapter: Adapter, artifacts: "BlobArtifacts", session: RunSession, ledger: Ledger) -> None:
        self._adapter = adapter
        self._artifacts = artifacts
        self._session = session
        self._ledger = ledger

    async def invoke(self, order: CallOrder) -> CallResult:
        returned = await self._adapter.invoke(order)
        body: JsonObject = {"content": [*returned.content], "structured": returned.structured}
        encoded = _encode(body)
        if len(encoded) <= min(order.capability.limits.output_bytes, ACTION_RESULT_BYTES):
            return returned
        if len(encoded) > ACTION_OUTPUT_BYTES:
            raise OutcomeUnknown(
                f"{order.capability.name} returned more than {ACTION_OUTPUT_BYTES} bytes; the result was discarded",
                reason="output_too_large",
                hint="request less at once",
                tool=order.capability.name,
                most=ACTION_OUTPUT_BYTES,
            )
        return await self._preview(order, returned, encoded)

    async def _preview(self, order: CallOrder, returned: CallResult, encoded: bytes) -> CallResult:
        text = _only_text(returned)
        content, mime_type = (encoded, "application/json") if text is None else (text.encode(), "text/plain")
        start = (text if text is not None else encoded.decode())[:ACTION_PREVIEW_CHARACTERS]
        refs = [*returned.artifact_refs]
        where = "the rest was discarded: the run has ended"
        if self._ledger.live:
            self._ledger.touch(returned.flow)  # first: the artifact is recorded with the run's flow
            name = f"{order.capability.name}-{order.call_id}"[:200]
            ref = await self._artifacts.keep(self._session, self._ledger, content, mime_type=mime_type, name=name)
            where = f"the rest was discarded: this host accepts no artifacts of type {mime_type}"
            if ref is not None:
                refs.append(ref)
                where = f"the whole output is in the artifact {ref['artifact_id']}"
        preview: JsonObject = {"type": "text", "text": f"{start}\n[{len(content)} bytes in total; {where}]"}
        return replace(returned, content=(preview,), structured=None, artifact_refs=tuple(refs))


def _only_text(returned: CallResult) -> str | None:
    """The text of an output that consists of text only."""
    if returned.structured is not None or any(part.get("type") != "text" for part in returned.content):
        return None
    return "\n".join(str(part.get("text", "")) for part in returned.content)


class BlobArtifacts:
    """Stores outputs as artifacts of their run. The blob is on disk before the record that names it."""

    def __init__(self, blobs: BlobStore, terms: ArtifactTerms = ANY_TERMS) -> None:
        self._blobs = blobs
        self._terms = terms

    async def keep(
        self, session: RunSession, ledger: Ledger, content: bytes, *, mime_type: str, name: str
    ) -> JsonObject | None:
        if self._terms.type_problem(mime_type) is not None:
            return None
        sha256 = await asyncio.to_thread(self._blobs.put, content)
        ref: JsonObject = {
            "artifact_id": artifact_id_of(session.run_id, f"out_{secrets.token_hex(8)}"),
            "artifact_type": "tool_output",
            "mime_type": mime_type,
            "name": name,
            "size_bytes": len(content),
            "sha256": sha256,
        }
        ledger.note("artifact.created", {**ref, "flow": ledger.flow.bits})
        return ref
