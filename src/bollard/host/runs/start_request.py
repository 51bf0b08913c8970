"""The `run/start` request of a run, as JSON. Built by hand for speed; a test checks it against `AgentRunRequest`."""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import Agent
from bollard.host.agents.config_form import secret_fields
from bollard.host.clock import Clock
from bollard.host.grants.grant import Grant, GrantLimits, available_apis_of, resources_of
from bollard.host.log.records import NO_BITS, PRIVATE_BIT, RunFacts
from bollard.host.runs.creation import QueuedRun
from bollard.host.runs.event import NO_DETAILS, NewEvent, RawPayload, delivery_context
from bollard.host.scope import Scope
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.references import is_reference, referred
from bollard.host.secrets.vault import Vault
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.store import Store
from bollard.host.telemetry.tracer import RunTrace
from bollard.protocol import JsonObject, JsonValue, StateScope, limits

DEFAULT_LOCALE: Final = "en_US"
DEFAULT_TIMEZONE: Final = "UTC"
"""The language and time zone of a sender that names none."""


class ConversationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """State and history of the conversation when the run starts."""

    state: JsonObject = {}
    shortened: JsonObject = {}
    """The scopes of which `state` has only keys, and whether it has all of them."""
    transcript_seq: int | None = None
    event_seq: int | None = None
    latest_cursor: str | None = None
    has_history_before: bool = False


def run_request(
    facts: RunFacts,
    agent: Agent,
    event: NewEvent,
    grant: Grant,
    surroundings: ConversationFacts,
    *,
    now_ms: int,
    host_version: str,
    trace: RunTrace | None = None,
) -> JsonObject:
    """Build the request."""
    context: JsonObject = {
        "run_id": facts.run_id,
        "trigger": {"type": event.event_type, "source": event.trigger, "timestamp": now_ms / 1000},
        **event_context(facts.event_id, event),
        "delivery": delivery_context(event.reply, event.surface, agent.policy.delivery, facts.deliver_to),
        "resources": resources_of(grant),
        "context": {
            "has_history_before": surroundings.has_history_before,
            "inline_policy": {"mode": "current_event", "delivered_count": 1},
            "available_apis": available_apis_of(grant),
        },
        "state": surroundings.state,
        "runtime": _runtime(facts, event, grant, now_ms, host_version, trace),
        "config": agent.config,
    }
    if surroundings.shortened:
        context["metadata"] = {"state_snapshot": surroundings.shortened}
    access = cast("JsonObject", context["context"])
    for name in ("transcript_seq", "event_seq", "latest_cursor"):
        if (value := getattr(surroundings, name)) is not None:
            access[name] = value
    if facts.thread is not None:
        access["thread_id"] = facts.thread
    if facts.conversation is not None:
        access["conversation_id"] = facts.conversation
    if event.extra:
        context["adapter"] = {"extra": event.extra}
    return {"runner_id": agent.runner_id, "runner_name": agent.runner_name, "context": context}


def event_context(event_id: str, event: NewEvent) -> JsonObject:
    """The event, input, conversation, actor and subject, as in a start request and in a steering message."""
    entry: JsonObject = {
        "event_id": event_id,
        "event_type": event.event_type,
        "source": event.source,
        "data": event.data,
    }
    if event.event_ms is not None:
        entry["event_time"] = event.event_ms / 1000
    if event.source_event_type is not None:
        entry["source_event_type"] = event.source_event_type
    if event.raw is not None:
        entry["raw_ref"] = _raw_ref(event.raw)
    given: JsonObject = {"event": entry, "input": _input(event)}
    scope, details = event.scope, event.details or NO_DETAILS
    if scope.conversation is not None:
        given["conversation"] = _present(
            conversation_id=scope.conversation,
            thread_id=scope.thread,
            launcher_type=details.launcher_type,
            launcher_id=details.launcher_id,
            sender_id=scope.actor_id,
            bot_id=scope.bot,
            workspace_id=scope.workspace,
            session_id=details.session_id,
        )
    if scope.actor_type is not None:
        actor = _present(actor_type=scope.actor_type, actor_id=scope.actor_id, actor_name=event.actor_name)
        given["actor"] = {**actor, "metadata": details.actor_metadata} if details.actor_metadata else actor
    if scope.subject_type is not None:
        subject = _present(subject_type=scope.subject_type, subject_id=scope.subject_id)
        given["subject"] = {**subject, "data": details.subject_data} if details.subject_data else subject
    return given


def _runtime(
    facts: RunFacts, event: NewEvent, grant: Grant, now_ms: int, host_version: str, trace: RunTrace | None
) -> JsonObject:
    details = event.details or NO_DETAILS
    found: JsonObject = {
        "host_version": host_version,
        "timeout_ms": round(facts.deadline_s * 1000),
        "deadline_at": now_ms / 1000 + facts.deadline_s,
        "limits": _limits(grant.limits),
        "locale": details.locale or DEFAULT_LOCALE,
        "timezone": details.timezone or DEFAULT_TIMEZONE,
        "static_refs": _static_refs(grant.access.sha256, grant.graph_sha256),
    }
    if trace is not None:
        found["trace_id"], found["traceparent"] = trace.context.trace_id, trace.traceparent
    return found


@lru_cache(maxsize=256)
def _limits(limits: GrantLimits) -> JsonObject:
    """The limits of the run, without those that the agent leaves open. Shared, never changed."""
    return {name: value for name, value in msgspec.to_builtins(limits).items() if value is not None}


@lru_cache(maxsize=256)
def _static_refs(access_sha256: str, graph_sha256: str | None) -> JsonObject:
    """Digests of what runs of an agent have in common. A prompt prefix made of it stays the same while they do."""
    refs: JsonObject = {"access": {"ref": "grant.access", "sha256": access_sha256}}
    if graph_sha256 is not None:
        refs["tools"] = {"ref": "grant.graph", "sha256": graph_sha256}
    return refs


def _input(event: NewEvent) -> JsonObject:
    found: JsonObject = {"contents": list(event.contents), "attachments": list(event.attachments)}
    if event.text is not None:
        found["text"] = event.text
    return found


def _raw_ref(raw: RawPayload) -> JsonObject:
    ref: JsonObject = {"artifact_id": raw.artifact_id, "size_bytes": raw.size_bytes}
    return ref if raw.mime_type is None else {**ref, "mime_type": raw.mime_type}


def _present(**fields: str | None) -> JsonObject:
    found: dict[str, JsonValue] = {key: value for key, value in fields.items() if value is not None}
    return found


class ConfigSecrets:
    """Resolves the secrets in an agent's configuration when a run starts."""

    def __init__(self, vault: Vault, redactor: Redactor) -> None:
        self._vault = vault
        self._redactor = redactor

    def to_fill(self, agent: Agent) -> bool:
        """Whether the configuration refers to secrets. Plain values in secret fields, which earlier versions saved, are
        added to the redactor."""
        found = False
        for name in secret_fields(agent.form):
            value = agent.config.get(name)
            if is_reference(value):
                found = True
            elif isinstance(value, str) and value:
                self._redactor.add(agent.workspace, value)
        return found

    @staticmethod
    def any_for(agent: Agent) -> bool:
        """Whether a run of the agent receives a secret."""
        return any(agent.config.get(name) for name in secret_fields(agent.form))

    async def filled(self, queued: QueuedRun) -> QueuedRun:
        """The run with resolved secrets. Raises if one is unavailable."""
        agent = queued.agent
        names = {
            field: referred(value)
            for field in secret_fields(agent.form)
            if isinstance(value := agent.config.get(field), str) and is_reference(value)
        }
        if not names:
            return queued
        values = await self._vault.use_all(
            agent.workspace, names.values(), purpose=f"agent:{agent.agent_id}", by=f"run:{queued.facts.run_id}"
        )
        config = {**agent.config, **{field: values[name] for field, name in names.items()}}
        return replace(queued, agent=replace(agent, config=config))


_decode: Final[Any] = msgspec.json.Decoder().decode
HistoryCursor = Callable[[str, Scope, int], str | None]


class StartRequest(msgspec.Struct, frozen=True):
    """The request, and the bits of `Flow` of its content."""

    request: JsonObject
    flow: int


class StartRequestBuilder:
    """Builds start requests. Reads the store in a thread, and only if it has to."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        host_version: str,
        *,
        secrets: ConfigSecrets | None = None,
        cursor: HistoryCursor = lambda _run_id, _scope, _seq: None,
    ) -> None:
        """`cursor` makes the cursor of a message for `history.page` of a run."""
        self._secrets = secrets
        self._cursor = cursor
        self._store = store
        self._clock = clock
        self._host_version = host_version

    def at_once(self, queued: QueuedRun, trace: RunTrace | None = None) -> JsonObject | None:
        """The request of a run without state, history and secrets. `None` if the store must be read."""
        if queued.grant.state_keys or queued.facts.conversation is not None:
            return None
        if queued.agent.form and ConfigSecrets.any_for(queued.agent):
            return None
        return self._request(queued, ConversationFacts(), trace)

    async def read(self, queued: QueuedRun, trace: RunTrace | None = None) -> StartRequest:
        """The request with state, history and secrets."""
        surroundings, flow = await asyncio.to_thread(self._surroundings, queued)
        if queued.agent.form and ConfigSecrets.any_for(queued.agent):
            flow |= PRIVATE_BIT
        if self._secrets is not None and queued.agent.form and self._secrets.to_fill(queued.agent):
            queued = await self._secrets.filled(queued)
        return StartRequest(self._request(queued, surroundings, trace), flow)

    def _request(self, queued: QueuedRun, surroundings: ConversationFacts, trace: RunTrace | None) -> JsonObject:
        return run_request(
            queued.facts,
            queued.agent,
            queued.event,
            queued.grant,
            surroundings,
            now_ms=self._clock.now_ms(),
            host_version=self._host_version,
            trace=trace,
        )

    def _surroundings(self, queued: QueuedRun) -> tuple[ConversationFacts, int]:
        facts = queued.facts
        state, shortened, flow = self._snapshot(queued.grant.state_keys)
        if facts.conversation is None:
            return ConversationFacts(state=state, shortened=shortened), flow
        newest = self._store.transcript(
            TranscriptQuery(
                workspace=facts.workspace, bot=facts.bot, conversation=facts.conversation, thread=facts.thread, limit=2
            )
        )
        before = [row for row in newest if row.event_id != facts.event_id]
        event, newest_seq = self._store.event(facts.workspace, facts.event_id), newest[0].seq if newest else None
        found = ConversationFacts(
            state=state,
            shortened=shortened,
            transcript_seq=newest_seq,
            event_seq=None if event is None else event.record_id,
            latest_cursor=None if newest_seq is None else self._cursor(facts.run_id, queued.grant.scope, newest_seq),
            has_history_before=bool(before),
        )
        return found, flow

    def _snapshot(self, state_keys: Mapping[StateScope, str]) -> tuple[JsonObject, JsonObject, int]:
        """State, shortened scopes and flow bits. A scope that exceeds the remaining size or has too many keys gets only
        its keys. Keys carry the same flow bits as values."""
        flow, state = NO_BITS, dict[str, JsonValue]()
        shortened: JsonObject = {}
        left, now_ms = limits.STATE_SNAPSHOT_BYTES, self._clock.now_ms()
        for scope, scope_key in state_keys.items():
            rows = self._store.states(scope_key, "", limits.STATE_LIST_KEYS + 1, now_ms=now_ms)
            more, rows = len(rows) > limits.STATE_LIST_KEYS, rows[: limits.STATE_LIST_KEYS]
            size = sum(len(row.value) + len(row.key.encode()) for row in rows)
            for row in rows:
                flow |= row.flow
            if more or size > left:
                state[scope] = {row.key: None for row in rows}
                shortened[scope] = {"keys_only": True, "more_keys": more}
            else:
                state[scope] = {row.key: _decode(row.value) for row in rows}
                left -= size
        return state, shortened, flow
