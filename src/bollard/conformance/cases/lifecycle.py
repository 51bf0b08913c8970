"""Introduction, discovery, heartbeat, shutdown, the environment of a worker, and runners that block or kill it."""

import os
import tempfile
from typing import cast

from pydantic import ValidationError

from bollard.conformance.connection import read_answer, require_error, shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.limits import EXIT_BUSY_S, START_S
from bollard.conformance.registry import Cases, Launcher
from bollard.conformance.scripted_run import AUTHOR, PLUGIN, RUNNERS, TOOLS, run_request, step
from bollard.conformance.session import Session
from bollard.protocol import CHANNEL_FD_VARIABLE, InitializeResult, JsonObject, RunnerList, ToolList, limits, runner_id
from bollard.protocol.limits import PROTOCOL_VERSION
from bollard.wire.envelope import METHOD_NOT_FOUND
from bollard.wire.process import ENVIRONMENT_ALLOWED

CASES = Cases()

_CANARY = "CONFORMANCE_CANARY"
_BLOCK_MS = 700
_FUTURE_PROTOCOL = 999
_FOREVER: JsonObject = {"do": "wait_forever"}


@CASES.own(
    "initialize on the inherited socket is answered with protocol 1, worker, plugin and limits",
    "P11-01",
    "P11-02",
    "P11-60",
)
async def initialize_states_identity(session: Session) -> None:
    try:
        introduction = InitializeResult.from_wire(session.introduction)
    except ValidationError as error:
        raise CaseFailed("a valid introduction", f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from error
    plugin = introduction.plugin
    if introduction.protocol != PROTOCOL_VERSION or (plugin.author, plugin.name) != (AUTHOR, PLUGIN):
        raise CaseFailed(f"protocol 1 and the plugin {AUTHOR}/{PLUGIN}", f"it says {shorten(session.introduction)}")


@CASES.own("a second initialize is refused, and the connection continues unchanged", "P11-03")
async def initialize_once(session: Session) -> None:
    again: JsonObject = {"protocol": PROTOCOL_VERSION, "host_version": "another", "limits": {"window_results": 1}}
    require_error(await session.request("initialize", again), "a second initialize")
    run = session.start([step("delta", text="x", count=3)], credit=False)
    await run.completes()


@CASES.launching(
    "a protocol version that the worker does not speak is refused with a hint that names the side to upgrade", "P11-04"
)
async def wrong_version_refused(launch: Launcher) -> None:
    async with launch(initialize=False) as session:
        params: JsonObject = {"protocol": _FUTURE_PROTOCOL, "host_version": "conformance", "limits": {}}
        answer = require_error(await session.request("initialize", params, within=START_S), "protocol 999")
        if "upgrade" not in answer.message.lower() or str(_FUTURE_PROTOCOL) not in answer.message:
            raise CaseFailed("a sentence with the version and what to upgrade", f"it says {answer.message!r}")


@CASES.launching("requests before initialize are refused and start nothing", "P11-05")
async def nothing_before_initialize(launch: Launcher) -> None:
    async with launch(initialize=False) as session:
        request = run_request("early", [step("delta", text="x")])
        for method, params in (("run/start", request), ("runners/list", {}), ("tools/list", {})):
            require_error(await session.request(method, params, within=START_S), f"{method} before initialize")


@CASES.shared(
    "runners/list answers both runners with computed ids, capabilities and permissions", "P02-01", "P02-03", "P02-07"
)
async def lists_runners(session: Session) -> None:
    listed = read_answer(await session.request("runners/list", {}), RunnerList, "runners/list")
    found = {entry.runner_name: entry for entry in listed.runners}
    if sorted(found) != sorted(RUNNERS):
        raise CaseFailed(f"the runners {', '.join(RUNNERS)}", f"there are {', '.join(sorted(found)) or 'none'}")
    for name, entry in found.items():
        if entry.manifest.id != runner_id(AUTHOR, PLUGIN, name):
            raise CaseFailed(f"the id {runner_id(AUTHOR, PLUGIN, name)}", f"it is {entry.manifest.id}")
        interrupts = entry.manifest.capabilities.interrupt
        if interrupts != (name == "scripted"):
            raise CaseFailed("interrupt for scripted alone", f"{name} says {interrupts}")
        if "stream" not in entry.manifest.permissions.models or "search" not in entry.manifest.permissions.history:
            raise CaseFailed("the permissions models: stream and history: search", f"{name} does not ask for them")


@CASES.shared("tools/list answers the three tools with their input schemas", "P11-31")
async def lists_tools(session: Session) -> None:
    tools = read_answer(await session.request("tools/list", {}), ToolList, "tools/list").tools
    if sorted(tool.name for tool in tools) != sorted(TOOLS):
        raise CaseFailed(f"the tools {', '.join(TOOLS)}", f"there are {', '.join(tool.name for tool in tools)}")
    for tool in tools:
        if tool.input_schema.get("type") != "object" or not tool.description.strip():
            raise CaseFailed("a description and an object schema", f"{tool.name} has none")
    echo = next(tool for tool in tools if tool.name == "echo")
    if "text" not in cast("JsonObject", echo.input_schema.get("properties", {})):
        raise CaseFailed("echo to take a text", f"its schema is {shorten(echo.input_schema)}")


@CASES.shared("a request with an unknown method is answered with -32601", "P11-06")
async def unknown_method_refused(session: Session) -> None:
    answer = require_error(await session.request("conformance/unknown", {}), "an unknown method")
    if answer.code != METHOD_NOT_FOUND:
        raise CaseFailed(f"the code {METHOD_NOT_FOUND}", f"it is {answer.code}: {answer.message}")


@CASES.shared("a notification with an unknown method is ignored", "P01-12")
async def unknown_notification_ignored(session: Session) -> None:
    session.note("conformance/unknown", {"x": 1})
    await session.ping()


@CASES.shared("requests with missing or wrong parameters are refused and have no effect", "P11-07")
async def wrong_parameters_refused(session: Session) -> None:
    good = run_request("wrong", [step("delta", text="x")])
    context = cast("JsonObject", good["context"])
    wrong: tuple[JsonObject, ...] = (
        {},
        {**good, "context": 1},
        {**good, "context": {**context, "run_id": 7}},
        {**good, "context": {key: value for key, value in context.items() if key != "event"}},
    )
    for params in wrong:
        require_error(await session.request("run/start", params), f"run/start with {shorten(params)}")
    require_error(await session.request("tool/call", {"tool": "echo"}), "tool/call without arguments")
    session.note("run/credit", {"run_id": "wrong", "sequence": "many"})
    session.note("run/cancel", {})
    await session.ping()


@CASES.shared("ping is answered while runs wait, stream and lack credit", "P11-08")
async def ping_while_busy(session: Session) -> None:
    waiting = session.start([_FOREVER])
    blocked = session.start([step("delta", text="x", count=1000)], credit=False)
    await blocked.has(1)
    for _ in range(3):
        await session.ping()
    for run in (waiting, blocked):
        run.cancel()
        await run.fails_with("cancelled")


@CASES.own("shutdown of an idle worker is answered, and the process ends with code 0", "P11-10")
async def shutdown_idle(session: Session) -> None:
    session.ask("shutdown", {"grace_s": 5})
    code = await session.exited("an idle worker to end after shutdown")
    if code != 0:
        raise CaseFailed("exit code 0", f"it is {code}")


@CASES.own("after shutdown active runs end, new ones are refused, and the worker ends after the last run", "P11-09")
async def shutdown_lets_runs_end(session: Session) -> None:
    run = session.start([step("delta", text="a"), step("wait", ms=600), step("delta", text="b")])
    await run.has(1)
    session.ask("shutdown", {"grace_s": 20})
    late = session.start([step("delta", text="x")])
    require_error(await late.answered(), "run/start after shutdown")
    await run.completes()
    await session.exited("the worker to end soon after its last run")


@CASES.own("after the shutdown grace the worker cancels the remaining runs and ends", "P11-10")
async def shutdown_grace_passes(session: Session) -> None:
    run = session.start([step("delta", text="a"), _FOREVER])
    await run.has(1)
    run.observed.cancelled = True
    session.ask("shutdown", {"grace_s": 0.3})
    await session.exited("the worker to end after the grace", within=EXIT_BUSY_S + 0.3)
    terminal = run.observed.terminal
    if terminal is None or terminal["type"] != "run.failed":
        raise CaseFailed(
            "a run.failed for the run that was left", f"the last that came is {shorten(run.observed.results[-1])}"
        )


@CASES.own("when the connection closes, the worker cancels its runs and ends", "P08-10")
async def channel_loss_ends_worker(session: Session) -> None:
    runs = [session.start([step("delta", text="a"), _FOREVER]) for _ in range(3)]
    for run in runs:
        await run.has(1)
    session.process.transport.close("the kit closes the connection")
    await session.exited("the worker to end after its connection closed")


@CASES.own(
    "a runner that ignores its cancel cannot keep a worker without a connection for more than the grace", "P08-10"
)
async def channel_loss_ends_stubborn(session: Session) -> None:
    run = session.start([step("ignore_cancel"), step("delta", text="a"), _FOREVER])
    await run.has(1)
    session.process.transport.close("the kit closes the connection")
    await session.exited("the worker to end", within=limits.CANCEL_GRACE_S + EXIT_BUSY_S)


@CASES.launching("a runner sees the variables of the allow-list and none of the kit's own", "P11-38")
async def environment_is_allowed(launch: Launcher) -> None:
    inherited = {**os.environ, _CANARY: "sings", "BOLLARD_CANARY": "sings"}
    async with launch(inherited=inherited) as session:
        reply = await session.start([step("environment")]).said()
        seen = set(cast("list[str]", reply.get("variables", [])))
        foreign = sorted(
            name for name in seen - ENVIRONMENT_ALLOWED if name in inherited and name != CHANNEL_FD_VARIABLE
        )
        if foreign:
            raise CaseFailed("only allowed variables", f"the runner sees {', '.join(foreign)}")


@CASES.launching("a worker inherits no descriptor but its connection and the standard three", "P11-38")
async def descriptors_are_few(launch: Launcher) -> None:
    with tempfile.NamedTemporaryFile(prefix="conformance-canary-") as canary:
        os.set_inheritable(canary.fileno(), True)
        async with launch() as session:
            reply = await session.start([step("environment")]).said()
            descriptors = cast("list[JsonObject]", reply.get("descriptors", []))
            if not descriptors:
                raise CaseFailed("the list of open descriptors", f"the runner said {shorten(reply)}")
            if found := [entry for entry in descriptors if entry.get("target") == canary.name]:
                raise CaseFailed("no descriptor of the kit in the worker", f"it has {shorten(found)}")


@CASES.own("a runner that blocks the worker for a moment costs time only", "P11-39")
async def block_is_survived(session: Session) -> None:
    other = session.start([step("delta", text="a"), step("wait", ms=100), step("delta", text="b")])
    await other.has(1)
    run = session.start([step("block", ms=_BLOCK_MS), step("delta", text="x", count=10)])
    await session.ping()
    await run.completes()
    await other.completes()
    if run.texts != ["x"] * 10 or other.texts != ["a", "b"]:
        raise CaseFailed("all deltas of both runs", f"they are {shorten(run.texts)} and {shorten(other.texts)}")


@CASES.own("a worker that ends closes its connection", "P11-40")
async def exit_closes_channel(session: Session) -> None:
    session.start([step("delta", text="x"), step("exit", code=3)])
    await session.exited("the process to end")
    await session.never(
        lambda: session.closed is None and session.process.returncode is None, "the connection to close"
    )
    if session.process.returncode != 3:
        raise CaseFailed("exit code 3", f"it is {session.process.returncode}")
