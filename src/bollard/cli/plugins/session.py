"""One conversation with one runner. The worker process is restarted after a crash, and runs follow one another.
`session_run` has a single run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bollard.cli.errors import UsageProblem, writing
from bollard.cli.language import Text
from bollard.cli.plugins.session_run import LocalConversation, LocalRun, LocalRunEnd, recording_of
from bollard.cli.plugins.worker_link import LinkEvents, WorkerLink, start_worker
from bollard.cli.terminal.renderers import Renderer, SessionFacts
from bollard.protocol import AgentRunnerDiscovery, JsonObject, LogRecord, ToolAnswer, ToolCallContext
from bollard.protocol.shape import english
from bollard.sdk.testing import Recording
from bollard.wire import ChannelClosed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The options of the command line."""

    path: Path
    runner: str | None
    config: JsonObject
    timeout_s: float
    record: Path | None


class Session:
    """Runs messages and events on a worker, one at a time."""

    def __init__(self, options: SessionOptions, renderer: Renderer, text: Text) -> None:
        self._options = options
        self._renderer = renderer
        self._text = text
        self._link: WorkerLink | None = None
        self._stage: LocalConversation | None = None
        self._turn: LocalRun | None = None
        self._turns = 0
        self._early: list[LogRecord] | None = []
        """Log records until the session is open, with the problems of the worker."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._link is not None:
            await self._link.stop()
            self._link = None

    # --- before the first run ---

    async def open(self, *, interactive: bool) -> None:
        """Start the worker, choose the runner, and show usable and unusable entries."""
        link = await self._connected()
        early, self._early = self._early or [], None
        for record in early:
            if "rule" in record.fields:
                self._tell_problem(record)
            else:
                self._renderer.logged(record)
        for problem in link.problems:
            sentence = self._text.problem({"problem": problem.problem, **problem.details})
            field = self._text.place(problem.details, problem.field)
            self._renderer.problem("", problem.entry, field, sentence, "")
        runner = self._choose(link.runners)
        self._stage = LocalConversation(
            runner.manifest,
            self._options.config,
            link.tools,
            self._call_tool,
            locale=self._text.language,
            timeout_s=self._options.timeout_s,
        )
        label = runner.manifest.label
        self._renderer.opened(
            SessionFacts(
                plugin=f"{link.plugin.author}/{link.plugin.name}",
                version=link.plugin.version,
                runner=runner.runner_name,
                label=label.get(self._text.language) or english(label),
                tools=tuple(tool.name for tool in link.tools),
                steering=runner.manifest.capabilities.steering,
                interactive=interactive,
            )
        )

    def _choose(self, runners: tuple[AgentRunnerDiscovery, ...]) -> AgentRunnerDiscovery:
        names = [runner.runner_name for runner in runners]
        if not names:
            raise UsageProblem("error.no_runner", "hint.check", path=self._options.path)
        wanted = self._options.runner or (names[0] if len(names) == 1 else "default")
        if wanted in names:
            return runners[names.index(wanted)]
        problem = "error.which_runner" if self._options.runner is None else "error.runner"
        raise UsageProblem(problem, "hint.which_runner", name=wanted, names=", ".join(names))

    def _tell_problem(self, record: LogRecord) -> None:
        where, _, problem = record.message.partition(": ")
        rule, field, hint = (str(record.fields.get(name, "")) for name in ("rule", "field", "hint"))
        if self._text.language != "en_US" and f"rule.{rule}" in self._text:
            details = record.fields.get("details")
            known: JsonObject = {"problem": problem, **(details if isinstance(details, dict) else {})}
            field, detail = self._text.place(known, field), self._text.problem(known)
            problem = self._text("rule.detail", rule=self._text(f"rule.{rule}"), detail=detail)
            hint = self._text(f"fix.{rule}")
        self._renderer.problem(rule, where, field, problem, hint)

    # --- runs ---

    @property
    def steerable(self) -> bool:
        """Whether a message can steer the active run."""
        return self._stage is not None and self._stage.runner.capabilities.steering

    async def run(self, text: str | None, event_type: str) -> LocalRunEnd:
        """One run, from its event to its end."""
        if self._stage is None:
            raise RuntimeError("the session is not open")
        ledger = self._stage.open(text, event_type)
        recording = recording_of(ledger, self._stage.runner) if self._options.record is not None else None
        turn = LocalRun(self._stage, ledger, self._renderer, recording, timeout_s=self._options.timeout_s)
        await self._start(turn)
        self._turn = turn
        self._turns += 1
        try:
            end = await turn.finish()
        finally:
            self._turn = None
        if recording is not None:
            self._save(recording)
        self._renderer.ended(end.shown)
        await self._look_after_worker(end)
        return end

    async def _start(self, turn: LocalRun) -> None:
        link = await self._connected()
        try:
            turn.started(link.end.start_run(turn.request, turn))
        except ChannelClosed:  # it died between two runs
            link = await self._connected()
            turn.started(link.end.start_run(turn.request, turn))

    def cancel(self) -> bool:
        """Cancel the active run. False if there is none, or it is being cancelled already."""
        if self._turn is None or self._turn.reason is not None:
            return False
        self._turn.cancel("cancelled")
        return True

    def steer(self, text: str, on_sent: Callable[[bool], None]) -> None:
        """Send a message into the active run. `on_sent` is called at once with whether the run accepted it."""
        turn = self._turn if self.steerable else None
        try:
            if turn is not None:
                turn.steer(text)
        except ValueError:  # its queue is full
            turn = None
        on_sent(turn is not None)

    def _save(self, recording: Recording) -> None:
        path = self._options.record
        if path is None:
            return
        if self._turns > 1:  # a recording holds one run
            path = path.with_name(f"{path.stem}-{self._turns}{path.suffix}")
        with writing(path):
            recording.save(path)

    # --- the worker ---

    async def _connected(self) -> WorkerLink:
        if self._link is None or not self._link.alive:
            await self._drop_worker()
            self._link = await start_worker(self._options.path, LinkEvents(self._logged, self._commit), self._text)
        return self._link

    async def _drop_worker(self) -> int | None:
        link, self._link = self._link, None
        return None if link is None else await link.stop()

    async def _look_after_worker(self, end: LocalRunEnd) -> None:
        """Replace a worker that crashed, or whose run does not end, before the next message."""
        if end.worker_is_gone:
            for strike in self._link.strikes if self._link is not None else ():
                self._renderer.rejected(f"strike {strike.count}", f"{strike.fault}: {strike.detail}")
            code = await self._drop_worker()
            self._renderer.note(self._text("run.crashed", code=code))
        elif end.abandoned and self._link is not None:
            await self._link.kill()
            self._link = None
            self._renderer.note(self._text("run.abandoned"))

    def _logged(self, record: LogRecord) -> None:
        if self._early is not None:
            self._early.append(record)
        elif "rule" not in record.fields or record.run_id is not None:  # problems were shown at the start
            self._renderer.logged(record)

    def _commit(self) -> None:
        if self._turn is not None:
            self._turn.commit()

    async def _call_tool(self, name: str, arguments: JsonObject) -> ToolAnswer:
        link = await self._connected()
        run_id = self._turn.ledger.context.run_id if self._turn is not None else ""
        context = ToolCallContext(run_id=run_id, workspace_id="workspace-1", agent_id="terminal")
        return await link.call_tool(name, arguments, context)
