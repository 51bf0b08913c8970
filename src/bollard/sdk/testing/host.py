"""`MemoryHost`: an in-memory host that answers from plain values, without processes, connections or disk.

It checks parameters, permissions and limits like a real host, so that a runner that passes here needs no further
grant. It says nothing about timing or load.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue
from bollard.protocol.form import default_config, prompts_in
from bollard.sdk.declaration import RunnerDeclaration, declaration_of
from bollard.sdk.errors import AgentAPIException, DeclarationError
from bollard.sdk.run_driver import RunnerObject
from bollard.sdk.testing.clock import Clock, SystemClock
from bollard.sdk.testing.grant import EVERYTHING, Denials, Grant
from bollard.sdk.testing.ledger import RunLedger, RunOutcome
from bollard.sdk.testing.live_run import HostCaller, LiveRun
from bollard.sdk.testing.message_files import take_files
from bollard.sdk.testing.models import ScriptedModel
from bollard.sdk.testing.occasion import (
    CONVERSATION_ID,
    Occasion,
    add_grant,
    build_context,
    build_event_record,
    scope_keys,
)
from bollard.sdk.testing.plugin_manifest import declared_on_host
from bollard.sdk.testing.recording import Recording, ReplayedCalls
from bollard.sdk.testing.resources import resources_of
from bollard.sdk.testing.run_api import RunApiHandler
from bollard.sdk.testing.steering import Steer, SteeringQueue
from bollard.sdk.testing.stores import Artifacts, Blobs, MemoryArtifact, StateStore
from bollard.sdk.testing.transcript import Events, HistoryEntry, Transcript, text_of
from bollard.sdk.testing.world import ChildAgents, KnowledgeBases, PlatformActions, Tools, World


class MemoryHost:
    """A host in memory. Everything scripted is granted, within the runner's own manifest; `deny` refuses."""

    def __init__(
        self,
        *,
        models: Mapping[str, ScriptedModel] | None = None,
        tools: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]] = (),
        knowledge: Mapping[str, Iterable[str | protocol.KnowledgeChunk]] | None = None,
        history: Iterable[HistoryEntry] = (),
        events: Iterable[protocol.AgentEventRecord] = (),
        state: Mapping[str, Mapping[str, JsonValue]] | None = None,
        storage: Mapping[str, Mapping[str, bytes]] | None = None,
        artifacts: Mapping[str, bytes | MemoryArtifact] | None = None,
        files: Mapping[str, bytes] | None = None,
        agents: Mapping[str, str | protocol.ChildRunResult | Callable[..., Any]] | None = None,
        platform: Mapping[str, Any] | None = None,
        steering: Iterable[str | Steer] = (),
        clock: Clock | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        stored = storage or {}
        self.world = World(
            models=dict(models or {}),
            tools=Tools(tools, self.clock),
            knowledge=KnowledgeBases(knowledge or {}),
            transcript=Transcript(history, CONVERSATION_ID),
            events=Events(events),
            state=StateStore(self.clock),
            initial_state=state or {},
            storage={area: Blobs("stored key", stored.get(area, {})) for area in ("plugin", "workspace")},
            artifacts=Artifacts(artifacts or {}, self.clock),
            files=Blobs("file", files or {}),
            agents=ChildAgents(agents or {}),
            platform=PlatformActions(platform or {}),
            clock=self.clock,
        )
        self._steering = tuple(steering)
        self._denials = Denials()
        self._ledgers: dict[str, RunLedger] = {}
        self._answers = RunApiHandler(self.world, self._denials)
        self._instances: dict[Callable[..., Any], RunnerObject] = {}

    # --- what is allowed ---

    def deny(
        self,
        action: str,
        code: protocol.ErrorCode = "capability_denied",
        message: str | None = None,
        *,
        retryable: bool = False,
    ) -> None:
        """Refuse every later call of an action."""
        self._denials.deny(action, code, message, retryable)

    def allow(self, action: str) -> None:
        """Remove a denial."""
        self._denials.allow(action)

    # --- runs ---

    async def run(
        self,
        runner: object,
        text: str | None = None,
        *,
        config: JsonObject | None = None,
        timeout_s: float | None = None,
        record: Path | str | None = None,
        **occasion: Unpack[Occasion],
    ) -> RunOutcome:
        """Run a decorated runner on one event to its end. `record` writes a recording to a file."""
        live = self.start(runner, text, config=config, timeout_s=timeout_s, record=record, **occasion)
        try:
            return await live.outcome()
        finally:
            live.cancel()

    def start(
        self,
        runner: object,
        text: str | None = None,
        *,
        config: JsonObject | None = None,
        timeout_s: float | None = None,
        record: Path | str | None = None,
        **occasion: Unpack[Occasion],
    ) -> LiveRun:
        """Start a run, and return a handle to watch, steer and cancel it."""
        declaration, in_folder = declared_on_host(require_declaration(runner))
        given = {**default_config(declaration.config_schema), **(config or {})} if in_folder else config or {}
        context = build_context(
            f"run-{len(self._ledgers) + 1}", text, occasion, config=given, now=self.clock.now(), timeout_s=timeout_s
        )
        context = context.model_copy(update={"input": take_files(context, self.world.artifacts)})
        ledger = self.open(
            context,
            permissions=declaration.permissions,
            capabilities=declaration.capabilities,
            runner_name=declaration.name,
            in_folder=in_folder,
            form=declaration.config_schema,
        )
        recording = None if record is None else Recording.begin(ledger.context, declaration)
        return LiveRun(self, declaration, ledger, HostCaller(self, ledger.context.run_id), recording, record)

    def open(
        self,
        context: protocol.AgentRunContext,
        *,
        permissions: protocol.AgentRunnerPermissions = EVERYTHING,
        capabilities: protocol.AgentRunnerCapabilities | None = None,
        runner_name: str = "default",
        in_folder: bool = False,
        form: Sequence[protocol.FormItem] = (),
    ) -> RunLedger:
        """Open a run and grant the scripted resources within the permissions. Send the context of the ledger.

        `in_folder` says that the permissions come from a `manifest.yaml`; error messages then point there.
        """
        steerable = capabilities is None or capabilities.steering
        grant = Grant(
            permissions=permissions,
            manifest=runner_name if in_folder else None,
            steering=steerable and context.conversation is not None,
        )
        keys = scope_keys(context, runner_name)
        self.world.transcript.receive(context, context.trigger.timestamp)
        access, state, shortened = self.world.projection(context, grant, keys)
        whole = add_grant(context, resources_of(self.world, grant), access, state, permissions)
        if shortened:
            whole = whole.model_copy(update={"metadata": {**whole.metadata, "state_snapshot": shortened}})
        own_id = protocol.runner_id("local", "test", runner_name)
        queue = SteeringQueue(
            whole, own_id, self.clock.now, lambda item, status: self.world.steered(whole, item, status)
        )
        prompts = prompts_in(form, {**default_config(form), **context.config})
        ledger = RunLedger(
            context=whole, grant=grant, runner_id=own_id, scope_keys=keys, steering=queue, prompts=prompts
        )
        self.world.events.add(build_event_record(whole, whole.trigger.timestamp))
        if steerable:
            queue.schedule(self._steering)
        self._ledgers[context.run_id] = ledger
        return ledger

    def take(self, result: protocol.AgentRunResult) -> None:
        """Apply one result of an open run. A result of any other run has no effect."""
        ledger = self._ledgers.get(result.run_id)
        payload = None if ledger is None else ledger.take(result)
        if ledger is None or payload is None:
            return
        try:
            if isinstance(payload, protocol.StateUpdated):
                self._set_state(ledger, payload)
            elif isinstance(payload, protocol.ArtifactCreated):
                self._create_artifact(ledger, payload)
        except AgentAPIException as error:
            ledger.reject(result, "result.rejected", error.error.message)
        except ValueError as error:
            ledger.reject(result, "result.rejected", str(error))

    def _set_state(self, ledger: RunLedger, update: protocol.StateUpdated) -> None:
        request = protocol.StateSet(scope=update.scope, key=update.key, value=update.value)
        ledger.grant.check("state.set", request)
        self.world.state.set(ledger.scope_key(update.scope), request)

    def _create_artifact(self, ledger: RunLedger, created: protocol.ArtifactCreated) -> None:
        if "write" not in ledger.grant.permissions.artifacts:
            raise ValueError(f"artifact.created needs a permission; {ledger.grant.advice('artifacts', 'write')}")
        kept = self.world.artifacts.create(created, ledger.maker)
        ledger.artifact_ids.append(kept.artifact_id)

    def end(self, run_id: str, cancel_reason: str | None = None) -> RunOutcome:
        """Close an open run and return its outcome."""
        ledger = self._ledgers[run_id]
        ledger.closed = True
        status, code, error = ledger.verdict(cancel_reason)
        steering = ledger.steering.end(completed=status == "completed")
        if status in ("failed", "timeout"):
            self.world.fact(ledger.context, "run.failed", status=status, code=code)
        texts = [text_of(message.content) for message in ledger.assembly.messages]
        self.world.transcript.answer(ledger.context, texts, self.clock.now())
        kept = self.world.artifacts.kept
        mine = [name for name, held in kept.items() if held.metadata.run_id == run_id]
        return RunOutcome(
            run_id=run_id,
            status=status,
            code=code,
            error=error,
            text=ledger.assembly.text,
            messages=ledger.assembly.messages,
            results=tuple(ledger.results),
            calls=tuple(ledger.calls),
            state={scope: self.world.state.snapshot(key) for scope, key in ledger.scope_keys.items()},
            artifacts={name: kept[name] for name in dict.fromkeys(mine + ledger.artifact_ids)},
            actions=tuple(ledger.actions),
            rejected=tuple(ledger.rejected),
            logs=tuple(ledger.logs),
            steering=steering,
        )

    # --- the run API ---

    async def answer(self, run_id: str, action: str, params: JsonObject) -> JsonValue:
        """Answer one call of a run; raises `AgentAPIException`."""
        return await self._answers.one(self._ledgers.get(run_id), action, params)

    def answer_stream(self, run_id: str, action: str, params: JsonObject) -> AsyncGenerator[JsonValue, None]:
        """Answer one streamed call of a run; raises `AgentAPIException`."""
        return self._answers.stream(self._ledgers.get(run_id), action, params)

    # --- runners that are classes ---

    async def instance_of(self, declaration: RunnerDeclaration) -> RunnerObject:
        """Return the callable runner. A class is created and started once."""
        if declaration.target not in self._instances:
            made = declaration.instantiate()
            self._instances[declaration.target] = made
            await made.start()
        return self._instances[declaration.target]

    async def close(self) -> None:
        """Close the started runners."""
        while self._instances:
            _, made = self._instances.popitem()
            await made.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def require_declaration(runner: object) -> RunnerDeclaration:
    """Return the declaration of a runner. Raises `DeclarationError` if there is none."""
    declaration = runner if isinstance(runner, RunnerDeclaration) else declaration_of(runner)
    if declaration is None:
        described = getattr(runner, "__name__", type(runner).__name__)
        raise DeclarationError(described, "it is not a runner", "decorate it with @runner(…)")
    return declaration


async def replay(runner: object, path: Path | str) -> RunOutcome:
    """Run a runner with the recorded context and answers. Raises `ReplayMismatch` if it makes another call."""
    recording = Recording.load(path)
    declaration, in_folder = declared_on_host(require_declaration(runner))
    calls = ReplayedCalls(recording)
    async with MemoryHost() as host:
        ledger = host.open(
            recording.context,
            permissions=declaration.permissions,
            capabilities=declaration.capabilities,
            runner_name=declaration.name,
            in_folder=in_folder,
        )
        ledger.context = recording.context  # with its recorded grant, instead of that of this empty host
        live = LiveRun(host, declaration, ledger, calls)
        try:
            outcome = await live.outcome()
        finally:
            live.cancel()
    calls.finish()
    return outcome
