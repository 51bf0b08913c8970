"""Runtimes of other machines: real processes that dial a real host, are killed, cut off, revoked and impersonated."""

import asyncio
import json
import os
import signal
import stat
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from tests.chaos.patience import PATIENCE_S

from bollard.runtime.remote_host import HostAddress, RuntimeKey, enrol, load_key, make_key, sign_headers
from bollard.wire import ChannelClosed
from bollard.wire.errors import HandshakeRefused
from bollard.wire.runtime_handshake import CHANNEL_PATH, KEY_HEADER
from bollard.wire.websocket import connect_websocket

BOLLARD = str(Path(sys.executable).with_name("bollard"))
UNANSWERED = "the worker's loop is blocked"
"""The reason for a runtime that did not answer its pings."""
PLUGIN = """
    import asyncio, os, subprocess
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Distant", permissions={"history": ["page"]})
    async def distant(ctx: RunContext):
        text = ctx.input.text
        if text == "wait":
            yield ctx.delta("waiting")
            await asyncio.Event().wait()
        elif text.startswith("flood"):
            for number in range(80):
                yield ctx.delta(f"{number} " + "x" * 200_000)
            yield ctx.completed(f"much, and {len(text)} characters came")
        elif text == "spawn":
            yield ctx.completed(str(subprocess.Popen(["sleep", "600"]).pid))
        elif text == "die":
            yield ctx.delta("dying")
            os._exit(1)
        else:
            yield ctx.delta(f"pid {os.getpid()}")
            yield ctx.completed(f"you said {text}")
"""


class Runtime:
    """`bollard runtime` on a machine that stands for another one."""

    def __init__(self, host, plugin: Path, home: Path) -> None:
        self.host = host
        self.plugin = plugin
        self.home = home
        self.key_file = home / "key.json"
        self.process: asyncio.subprocess.Process | None = None
        self.said = home / "stderr"

    async def start(self, code: str | None = None) -> None:
        arguments = [str(self.plugin), "--connect", f"ws://127.0.0.1:{self.host.port}", "--key", str(self.key_file)]
        arguments += [] if code is None else ["--enroll", code]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.home), "LANG": "C.UTF-8"}
        with self.said.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                BOLLARD, "runtime", *arguments, stdin=asyncio.subprocess.DEVNULL, stderr=errors, env=environment
            )

    @property
    def key(self) -> RuntimeKey:
        return load_key(self.key_file)

    async def end(self, how: signal.Signals = signal.SIGKILL) -> int:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        return await self.ended()

    async def ended(self) -> int:
        assert self.process is not None
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "distant.py"
    path.write_text(textwrap.dedent(PLUGIN), encoding="utf-8")
    return path


@pytest.fixture
async def make_runtime(tmp_path: Path, plugin: Path):
    made: list[Runtime] = []

    def make(host) -> Runtime:
        home = tmp_path / f"machine{len(made)}"
        home.mkdir()
        made.append(Runtime(host, plugin, home))
        return made[-1]

    yield make
    for runtime in made:
        if runtime.process is not None:
            await runtime.end()


@pytest.fixture
async def host(make_host):
    host = make_host()
    await host.start()
    return host


@pytest.fixture
async def there(host, make_runtime):
    """An enrolled and connected runtime with consent."""
    runtime = make_runtime(host)
    await runtime.start(await invite(host))
    await consent(host)
    await host.ready("distant")
    return runtime


async def ask(host, method: str, path: str, body=None):
    async with host.client.request(method, path, body) as answer:
        return answer.status, await answer.json()


async def invite(host, name: str = "box", **more) -> str:
    status, made = await ask(host, "POST", "/api/v1/runtimes", {"name": name, **more})
    assert status == 201, made
    return made["code"]


async def seen(host, name: str = "box", *statuses: str):
    """The runtime, once it has one of these statuses."""
    async with host.awaiting(f"the runtime {name} to be one of {statuses}"):
        while True:
            _, found = await ask(host, "GET", f"/api/v1/runtimes/{name}")
            if found.get("status") in statuses and (found["presence"] is None or found["presence"]["plugin"]):
                return found
            await asyncio.sleep(0.02)


async def consent(host, name: str = "box"):
    waiting = await seen(host, name, "waiting")
    body = {"consent": waiting["presence"]["consent"]}
    status, changed = await ask(host, "POST", f"/api/v1/runtimes/{name}/consent", body)
    assert status == 200, changed
    return changed


async def run(host, text: str = "hello"):
    """A run from its event to its end: its end, and its messages."""
    body = {"agent": "distant", "input": {"text": text}}
    async with (
        host.awaiting("the end of a run of the runtime"),
        host.client.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer,
    ):
        assert answer.status == 200, await answer.json()
        records = [json.loads(record.json) async for record in answer.events()]
    said = [each["data"]["message"]["content"] for each in records if each["type"] == "message.completed"]
    return records[-1]["data"], said


async def begin(host, text: str) -> str:
    """An active run, after its first words."""
    body = {"agent": "distant", "input": {"text": text}}
    async with host.client.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
        async for record in answer.events():
            if record.type == "message.delta":
                return answer.headers["bollard-run-id"]
    raise AssertionError("the run ended before its first words")


async def end_of(host, run_id: str):
    async with (
        host.awaiting("the end of the run"),
        host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer,
    ):
        records = [json.loads(record.json) async for record in answer.events()]
    return records[-1]["data"]


def records_of(host, *kinds: str):
    """The records about runtimes in the log; the host must be down."""
    store = host.open_store()
    try:
        rows = store.records(0, 10_000)
        return [(row.type, json.loads(row.data)) for row in rows if row.type in kinds]
    finally:
        store.close()


def address_of(host) -> HostAddress:
    return HostAddress(secure=False, host="127.0.0.1", port=host.port, prefix="")


async def knock(host, key: RuntimeKey, headers=None):
    """Dial as a runtime with this key would."""
    signed = headers or await sign_headers(address_of(host), key)
    return await connect_websocket(address_of(host).socket_url(CHANNEL_PATH), headers=signed)


@pytest.mark.requirement("P11-61")
@pytest.mark.smoke
async def test_a_runtime_is_enrolled_waits_for_consent_and_then_gets_runs(host, make_runtime):
    runtime = make_runtime(host)
    code = await invite(host)
    await runtime.start(code)
    waiting = await seen(host, "box", "waiting")
    assert "has no consent yet" in waiting["problem"]
    assert waiting["presence"]["asks"]["runners"] == {"default": ["history.page"]}
    assert stat.S_IMODE(runtime.key_file.stat().st_mode) == 0o600
    status, refused = await ask(host, "POST", "/api/v1/runtimes/box/consent", {})
    assert (status, refused["error"]["code"]) == (409, "consent_needed")
    assert (await consent(host))["status"] == "ready"
    await host.ready("distant")
    end, said = await run(host)
    assert (end["status"], said) == ("completed", ["you said hello"])
    ready = await seen(host, "box", "ready")
    assert ready["presence"]["ping_ms"] > 0
    assert ready["presence"]["worker"]["name"] == "bollard.runtime"
    assert (await host.plugin("distant"))["workers"] == 1
    with pytest.raises(HandshakeRefused, match="the enrolment code is invalid"):
        enrol(address_of(host), code, make_key())
    await runtime.end(signal.SIGTERM)
    assert runtime.process.returncode == 0
    await seen(host, "box", "away")
    await host.end(signal.SIGTERM)
    kinds = ("runtime.invited", "runtime.enrolled", "runtime.connected", "runtime.consented", "runtime.lost")
    assert [kind for kind, _ in records_of(host, *kinds)] == list(kinds)
    on_disk = b"".join(path.read_bytes() for path in host.data.rglob("*") if path.is_file())
    assert code.encode() not in on_disk
    assert runtime.key.secret.hex().encode() not in on_disk


async def test_a_killed_runtime_ends_its_runs_and_a_new_run_waits_for_it(host, there):
    run_id = await begin(host, "wait")
    await there.end(signal.SIGKILL)
    end = await end_of(host, run_id)
    assert end["code"] == "runner.crashed"
    assert UNANSWERED not in end["error"], "nobody had to ask whether it is there"
    next_run = asyncio.create_task(run(host, "again"))
    await seen(host, "box", "away")
    await there.start()
    assert (await next_run)[1] == ["you said again"]


async def test_a_silent_runtime_is_pinged_and_its_runs_end(host, there):
    run_id = await begin(host, "wait")
    there.process.send_signal(signal.SIGSTOP)
    try:
        end = await end_of(host, run_id)
    finally:
        there.process.send_signal(signal.SIGCONT)
    assert end["code"] == "runner.crashed"
    assert UNANSWERED in end["error"]
    await seen(host, "box", "ready")
    assert (await run(host))[1] == ["you said hello"], "it came back as a new process"


async def test_a_runtime_reconnects_after_its_host_was_killed(host, there):
    pid = there.process.pid
    await run(host, "spawn")
    # By its name: its number is that of a process namespace of its own.
    family = psutil.Process(pid).children(recursive=True)
    (child,) = [each for each in family if each.cmdline() == ["sleep", "600"]]
    await host.kill()
    await host.start()
    await seen(host, "box", "ready")
    assert (await run(host))[1] == ["you said hello"]
    assert (there.process.pid, there.process.returncode) == (pid, None)
    assert not child.is_running(), "what its plugin started went with the process that it was"


async def test_a_runtime_that_dies_with_its_plugin_crashes_only_that_run(host, there):
    end, _ = await run(host, "die")
    assert end["code"] == "runner.crashed"
    await there.ended()
    await seen(host, "box", "away")
    assert (await host.health())["ready"]


async def test_a_revoked_runtime_is_cut_at_once_and_never_admitted_again(host, there):
    run_id = await begin(host, "wait")
    status, _ = await ask(host, "DELETE", "/api/v1/runtimes/box")
    assert status == 200
    end = await end_of(host, run_id)
    assert end["code"] == "runner.crashed"
    assert UNANSWERED not in end["error"], "nobody had to ask whether it is there"
    assert await there.ended() == 4
    assert "the host let this runtime go" in there.said.read_text()
    await there.start()
    assert await there.ended() == 4
    assert "the key of this runtime is not enrolled here" in there.said.read_text()
    with pytest.raises(HandshakeRefused) as refused:
        await knock(host, there.key)
    assert refused.value.status == 401
    _, agents = await ask(host, "GET", "/api/v1/agents")
    assert "distant" not in {each["agent_id"] for each in agents["items"]}


async def test_a_disabled_runtime_is_cut_and_returns_once_enabled(host, there):
    await ask(host, "PATCH", "/api/v1/runtimes/box", {"enabled": False})
    assert await there.ended() == 4
    await ask(host, "PATCH", "/api/v1/runtimes/box", {"enabled": True})
    await there.start()
    await seen(host, "box", "ready")
    assert (await run(host))[1] == ["you said hello"]


async def test_changed_code_waits_for_new_consent(host, there):
    there.plugin.write_text(there.plugin.read_text().replace("you said", "you wrote"))
    await there.end(signal.SIGTERM)
    await there.start()
    waiting = await seen(host, "box", "waiting")
    assert "has changed since" in waiting["problem"]
    assert waiting["presence"]["change"] == {"added": [], "removed": []}
    await consent(host)
    await seen(host, "box", "ready")
    assert (await run(host))[1] == ["you wrote hello"]


async def test_a_wrong_key_a_replayed_signature_and_a_foreign_challenge_are_refused(host, there):
    await there.end(signal.SIGKILL)
    await seen(host, "box", "away")
    own = there.key
    headers = await sign_headers(address_of(host), own)
    first = await knock(host, own, headers)
    first.close("that was the first time")
    await seen(host, "box", "away")
    other = await sign_headers(address_of(host), make_key())
    mixed = [(name, dict(headers)[name] if name == KEY_HEADER else value) for name, value in other]
    tampered = [(name, value[:-2] + ("00" if value[-2:] != "00" else "11")) for name, value in headers]
    for tried in (headers, other, mixed, tampered, [], headers[:2], [(name, "zz") for name, _ in headers]):
        with pytest.raises(HandshakeRefused) as refused:
            await knock(host, own, tried or [("x", "y")])
        assert refused.value.status == 401
    with pytest.raises(Exception, match="this key is for"):
        await sign_headers(address_of(host), RuntimeKey(secret=own.secret, host_id="0" * 16))


async def test_a_second_connection_of_a_key_is_refused_while_the_first_is_alive(host, there):
    with pytest.raises(HandshakeRefused, match="is connected already") as refused:
        await knock(host, there.key)
    assert refused.value.status == 409
    assert (await run(host))[1] == ["you said hello"]
    there.process.send_signal(signal.SIGSTOP)
    try:
        second = await knock(host, there.key)  # the first does not answer: its line counts as broken
        second.close("enough")
    finally:
        there.process.send_signal(signal.SIGCONT)
    await seen(host, "box", "ready")
    await host.end(signal.SIGTERM)
    assert records_of(host, "runtime.refused")


async def test_a_browser_and_an_unknown_protocol_are_refused(host, there):
    signed = await sign_headers(address_of(host), there.key)
    own = f"http://127.0.0.1:{host.port}"
    for origin in ("https://evil.example", own):
        with pytest.raises(HandshakeRefused) as refused:
            await knock(host, there.key, [*signed, ("origin", origin)])
        assert refused.value.status == 403


class Junk:
    """A runtime that sends invalid frames."""

    def __init__(self, transport) -> None:
        self.transport = transport
        self.asked: asyncio.Queue = asyncio.Queue()
        self.lost: asyncio.Future = asyncio.get_running_loop().create_future()
        transport.start(self)

    def frames_received(self, frames) -> None:
        for frame in frames:
            self.asked.put_nowait(json.loads(frame))

    def connection_lost(self, reason: str) -> None:
        self.lost.set_result(reason)

    async def until_lost(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self.lost


@pytest.mark.parametrize(
    "frames",
    [
        [b"no json"] * 3,
        [b"[" * 5000] * 3,
        [b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"run_x","sequence":1,"type":"x","data":{}}}'] * 3,
        [b'{"jsonrpc":"2.0","id":1,"method":"api/call","params":{"run_id":"r","action":"a","params":{}}}'] * 4,
        [b'"' + b"x" * (2 * 1024 * 1024 + 10) + b'"'],
    ],
    ids=["no-json", "nested", "foreign-run", "foreign-call", "oversized"],
)
async def test_invalid_frames_of_a_runtime_cost_only_its_own_connection(host, there, frames):
    key = make_key()
    enrol(address_of(host), await invite(host, "bad"), key)
    junk = Junk(await knock(host, key))
    async with asyncio.timeout(PATIENCE_S):
        asked = await junk.asked.get()
    assert asked["method"] == "initialize"
    for frame in frames:
        junk.transport.send(frame)
    await junk.until_lost()
    assert (await run(host))[1] == ["you said hello"]
    assert (await host.health())["ready"]


async def test_a_runtime_enrolled_for_one_plugin_waits_with_any_other(host, make_runtime):
    runtime = make_runtime(host)
    await runtime.start(await invite(host, plugin="acme/other"))
    waiting = await seen(host, "box", "waiting")
    assert "enrolled for acme/other only" in waiting["problem"]
    body = {"consent": waiting["presence"]["consent"]}
    status, refused = await ask(host, "POST", "/api/v1/runtimes/box/consent", body)
    assert (status, refused["error"]["code"]) == (409, "conflict")


async def test_large_transfers_in_both_directions_lose_nothing_and_delay_no_small_run(host, there):
    sent = "flood" + "y" * 200_000
    body = {"agent": "distant", "input": {"text": sent}}
    run_id = (await host.client.post("/api/v1/runs", body))["run_id"]
    small = await asyncio.gather(*(run(host, str(number)) for number in range(20)))
    async with host.awaiting("the end of the flood"):  # a reader of what still comes may fall behind and get its gap
        while (await host.client.get(f"/api/v1/runs/{run_id}"))["status"] != "completed":  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    async with (
        host.awaiting("the records of the flood"),
        host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer,
    ):
        records = await _all(answer)
    assert [said for _, said in small] == [[f"you said {number}"] for number in range(20)]
    shown = [each["data"]["chunk"]["content"] for each in records if each["type"] == "message.delta"]
    assert "".join(shown) == "".join(f"{number} " + "x" * 200_000 for number in range(80))
    assert records[-1]["data"]["status"] == "completed"


async def _all(answer):
    return [json.loads(record.json) async for record in answer.events()]


async def test_two_runtimes_of_the_same_code_share_the_runs(host, there, make_runtime):
    second = make_runtime(host)
    await second.start(await invite(host, "second"))
    await consent(host, "second")
    waiting = await begin(host, "wait")
    assert (await run(host))[1] == ["you said hello"]
    assert (await host.plugin("distant"))["workers"] == 2
    await there.end(signal.SIGKILL)
    await second.end(signal.SIGKILL)
    assert (await end_of(host, waiting))["code"] == "runner.crashed"


async def test_a_runtime_without_its_host_redials_with_growing_delays(make_runtime, host, there):
    """No host listens for a while: the runtime reports it, and waits longer each time."""
    await host.kill()
    async with asyncio.timeout(PATIENCE_S):
        while there.said.read_text().count("trying again in") < 2:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    assert there.process.returncode is None
    with pytest.raises(ChannelClosed):
        await sign_headers(address_of(host), there.key)
    await there.end(signal.SIGTERM)
    assert there.process.returncode == 0
