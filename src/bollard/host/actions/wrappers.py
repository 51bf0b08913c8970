"""What every call gets around its adapter, whoever carries it out: an end in time, a second try where that is harmless,
no secrets, and an artifact for what is too large. Each is an adapter around an adapter."""

import asyncio
import secrets
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.actions.ports import Artifacts, Ledger, Redactor
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import HostError, OutcomeUnknown, ToolFailed
from bollard.host.grants.session import RunSession
from bollard.host.limits import ACTION_OUTPUT_BYTES, ACTION_PREVIEW_CHARACTERS, ACTION_RESULT_BYTES
from bollard.host.runs.results import artifact_id_of
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.protocol import JsonObject, JsonValue

_encode: Final = msgspec.json.Encoder().encode


def clean_error(redactor: Redactor, workspace: str, error: HostError) -> HostError:
    """The same error without secrets: some quote what they were given."""
    message = redactor.text(workspace, error.message)
    return error if message == error.message else type(error)(message, hint=error.hint)


class TimeLimit:
    """Ends in time, and with an error that says whether there can have been an effect."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    async def invoke(self, order: CallOrder) -> CallResult:
        # An agent that is called may wait for a person. Its own clock ends it, and stands still meanwhile.
        within_s = None if order.capability.kind == "agent" else order.timeout_s
        try:
            async with asyncio.timeout(within_s):
                return await self._adapter.invoke(order)
        except TimeoutError:
            sentence = f"{order.capability.name} did not end within {order.timeout_s:g} seconds"
            if order.capability.effects == "none":
                raise ToolFailed(sentence, hint="ask it for less") from None
            raise OutcomeUnknown(sentence, hint="look whether it happened before you do it again") from None
        except HostError:
            raise
        except Exception as error:
            # The boundary to every adapter: one that breaks must not take its caller along, and may have done its work.
            raise OutcomeUnknown(
                f"{order.capability.name} broke: {type(error).__name__}", hint="the host's log has the details"
            ) from error


class Retry:
    """Tries once more what can be done twice, when nobody knows whether it was done. Nothing else is."""

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
    """Takes secrets out of what comes back."""

    def __init__(self, adapter: Adapter, redactor: Redactor) -> None:
        self._adapter = adapter
        self._redactor = redactor

    async def invoke(self, order: CallOrder) -> CallResult:
        try:
            returned = await self._adapter.invoke(order)
        except HostError as error:
            clean_one = clean_error(self._redactor, order.context.workspace, error)
            if clean_one is error:
                raise
            raise clean_one from error.__cause__
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
    """Makes an artifact of an output that is too large to be an answer, and answers with its beginning."""

    def __init__(self, adapter: Adapter, artifacts: Artifacts, session: RunSession, ledger: Ledger) -> None:
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
                f"{order.capability.name} returned more than {ACTION_OUTPUT_BYTES} bytes, which nobody kept",
                hint="ask it for less",
            )
        return await self._kept(order, returned, encoded)

    async def _kept(self, order: CallOrder, returned: CallResult, encoded: bytes) -> CallResult:
        text = _only_text(returned)
        content, mime_type = (encoded, "application/json") if text is None else (text.encode(), "text/plain")
        shown = (text if text is not None else encoded.decode())[:ACTION_PREVIEW_CHARACTERS]
        refs = [*returned.artifact_refs]
        where = "the rest was not kept: the run is over"
        if self._ledger.live:
            self._ledger.touch(returned.flow)  # before it is kept, with all that it brings along
            name = f"{order.capability.name}-{order.call_id}"[:200]
            kept = await self._artifacts.keep(self._session, self._ledger, content, mime_type=mime_type, name=name)
            where = f"the rest was not kept: this host takes no artifacts of type {mime_type}"
            if kept is not None:
                refs.append(kept)
                where = f"the whole is in the artifact {kept['artifact_id']}"
        preview: JsonObject = {"type": "text", "text": f"{shown}\n[{len(content)} bytes in all; {where}]"}
        return replace(returned, content=(preview,), structured=None, artifact_refs=tuple(refs))


def _only_text(returned: CallResult) -> str | None:
    """The text, where an output is nothing else."""
    if returned.structured is not None or any(part.get("type") != "text" for part in returned.content):
        return None
    return "\n".join(str(part.get("text", "")) for part in returned.content)


# Keeps outputs that are too large to be answers as artifacts of their run.


class BlobArtifacts:
    """Contents go to the blobs first: the record that names one is written when it is on disk."""

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
