"""Starting runs: the context of the runner, refused ids, and concurrent runs."""

from bollard.conformance.connection import require_error, shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.registry import Cases
from bollard.conformance.scripted_run import run_request, step
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, JsonValue
from bollard.wire.envelope import ErrorResponse

CASES = Cases()

_AT_ONCE = 20
_NEW: JsonObject = {"field_of_a_newer_host": {"deep": [1, 2, {"x": None}]}}


def _same(reply: JsonObject, expected: JsonObject) -> None:
    for path, value in expected.items():
        if reply.get(path) != value:
            raise CaseFailed(f"{path} to be {shorten(value)}", f"the runner saw {shorten(reply.get(path))}")


@CASES.shared(
    "the runner sees input, conversation, actor, state and configuration as they were sent",
    "P04-01",
    "P04-04",
    "P04-16",
)
async def context_is_delivered(session: Session) -> None:
    odd: JsonValue = {"list": [1, -2.5, True, None, "ü 好 🚢"], "empty": {}, "large": 9007199254740992, "": "no name"}
    expected: JsonObject = {
        "run_id": "run-context",
        "event.event_type": "message.received",
        "input.text": "hello 好",
        "conversation.conversation_id": "c1",
        "actor.actor_id": "u1",
        "state.conversation": {"k": [1]},
        "config.odd": odd,
        "runtime.timeout_ms": 1234,
        "metadata.m": "v",
    }
    script = [step("context", paths=[*expected])]
    context: JsonObject = {
        "input": {"text": "hello 好"},
        "conversation": {"conversation_id": "c1", "thread_id": "t1"},
        "actor": {"actor_type": "user", "actor_id": "u1"},
        "state": {"conversation": {"k": [1]}},
        "runtime": {"timeout_ms": 1234},
        "metadata": {"m": "v"},
        "config": {"script": [*script], "odd": odd},
    }
    run = session.start(script, run_id="run-context", context=context)
    _same(await run.said(), expected)
    await run.completes()


@CASES.shared("unknown fields at every level, unknown enumeration values and content types do no harm", "P01-05")
async def tolerance_unknown_fields(session: Session) -> None:
    context: JsonObject = {
        **_NEW,
        "trigger": {"type": "telepathy", "source": "a_newer_source", **_NEW},
        "event": {"event_id": "e", "event_type": "planet.aligned", "source": "s", "data": {"d": 1}, **_NEW},
        "input": {
            "text": "hi",
            "contents": [{"type": "hologram", "hologram": {"x": 1}}, {"type": "text", "text": "t", **_NEW}],
            **_NEW,
        },
        "delivery": {"surface": "newer", "supports_streaming": True, **_NEW},
        "resources": {
            "models": [{"model_id": "m", "model_type": "oracle", "operations": ["divine"], **_NEW}],
            "wands": [{"wand_id": "w"}],
        },
        "context": {"available_apis": {"state": True, "magic": True}, "inline_policy": {"mode": "newer"}, **_NEW},
        "state": {"galaxy": {"g": 1}, "conversation": {"c": 1}},
        "runtime": {"timeout_ms": 1, "static_refs": {}, **_NEW},
        "adapter": {"extra": {"e": 1}, **_NEW},
    }
    paths = ["event.event_type", "trigger.source", "input.text"]
    run = session.start([step("context", paths=[*paths])], context=context)
    _same(
        await run.said(), {"event.event_type": "planet.aligned", "trigger.source": "a_newer_source", "input.text": "hi"}
    )
    await run.completes()


@CASES.shared("unknown fields in the parameters of methods of the connection do no harm", "P01-11")
async def tolerance_channel_parameters(session: Session) -> None:
    for method in ("runners/list", "tools/list", "ping"):
        if isinstance(answer := await session.request(method, dict(_NEW)), ErrorResponse):
            raise CaseFailed(f"{method} to be answered", f"it was refused: {answer.message}")
    run = session.start([step("delta", text="x", count=3), step("wait_forever")], credit=False)
    await run.has(3)
    session.note("run/credit", {"run_id": run.id, "sequence": 3, **_NEW})
    run.observed.cancelled = True
    session.note("run/cancel", {"run_id": run.id, "reason": "cancelled", **_NEW})
    await run.fails_with("cancelled")


@CASES.shared("an event without text, conversation, actor and reply target runs like any other", "P04-03")
async def event_without_message(session: Session) -> None:
    context: JsonObject = {
        "trigger": {"type": "schedule", "source": "scheduler"},
        "event": {"event_id": "e", "event_type": "schedule.triggered", "source": "clock"},
        "input": {},
        "delivery": {"surface": "none"},
    }
    run = session.start([step("context", paths=["input.text", "conversation", "event.event_type"])], context=context)
    _same(await run.said(), {"input.text": None, "conversation": None, "event.event_type": "schedule.triggered"})
    await run.completes()


@CASES.shared("run/start for a runner that the plugin does not have is refused", "P04-10")
async def unknown_runner_refused(session: Session) -> None:
    request = {**run_request("nobody", []), "runner_id": "plugin:bollard/conformance/nobody", "runner_name": "nobody"}
    require_error(await session.request("run/start", request), "run/start of an unknown runner")


@CASES.shared(
    "many runs at once keep their own results and numbers, and none waits for another", "P04-11", "P05-01", "P12-02"
)
async def concurrent_runs(session: Session) -> None:
    forever = session.start([step("wait_forever")])
    runs = [
        session.start([step("delta", text=f"{number}-", count=5), step("wait", ms=20), step("delta", text="end")])
        for number in range(_AT_ONCE)
    ]
    for number, run in enumerate(runs):
        await run.completes()
        if run.texts != [f"{number}-"] * 5 + ["end"]:
            raise CaseFailed(f"the six deltas of run {number}", f"it sent {shorten(run.texts)}")
    forever.cancel()
    await forever.fails_with("cancelled")


@CASES.shared("run/start with the id of an active run is refused, and that run continues", "P08-12")
async def active_id_refused(session: Session) -> None:
    run = session.start([step("delta", text="a"), step("wait", ms=300), step("delta", text="b")])
    await run.has(1)
    again = await session.request("run/start", run_request(run.id, [step("delta", text="intruder")]))
    require_error(again, "a second start of an active run")
    await run.completes()
    if run.texts != ["a", "b"]:
        raise CaseFailed("the deltas a and b", f"the run sent {shorten(run.texts)}")


@CASES.shared("run/start with the id of a run that has ended is refused", "P08-11")
async def ended_id_refused(session: Session) -> None:
    run = session.start([step("delta", text="a")])
    await run.completes()
    again = await session.request("run/start", run_request(run.id, [step("delta", text="ghost")]))
    require_error(again, "a second start of a run that has ended")
