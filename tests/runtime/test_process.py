"""The worker process itself: its inheritance, its refusals to start, and its connection over WebSocket."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.websocket_server import serve_websocket

from bollard.runtime.__main__ import _watch_silence
from bollard.runtime.limits import HOST_SILENCE_S

LOOKS = """
import json
at_import = dict(os.environ)

def descriptors():
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass
    return found

inheritable_at_import = [number for number in descriptors() if int(number) > 2 and os.get_inheritable(int(number))]

@runner()
async def run(ctx: RunContext):
    found = {
        "import": at_import,
        "now": dict(os.environ),
        "descriptors": descriptors(),
        "inheritable": inheritable_at_import,
        "path": sys.path,
    }
    yield json.dumps(found)
"""
ECHO = "@runner()\nasync def run(ctx: RunContext):\n    yield f'you said {ctx.input.text}'\n"


@pytest.mark.requirement("P11-38", "P11-51", "P11-01")
async def test_plugin_code_sees_the_declared_environment_and_no_inheritable_descriptor(
    start: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    os.environ["BOLLARD_SECRET_OF_THE_HOST"] = "x"
    try:
        with socket.socket() as leak:
            leak.set_inheritable(True)
            driver = await start(LOOKS, env={"DECLARED": "yes"}, cwd=tmp_path)
    finally:
        del os.environ["BOLLARD_SECRET_OF_THE_HOST"]
    seen = json.loads((await driver.finished()).text)
    assert seen["import"] == seen["now"] == {**environment, "DECLARED": "yes"}
    assert seen["inheritable"] == []
    kinds = sorted(target.partition(":")[0] for number, target in seen["descriptors"].items() if int(number) > 2)
    # The channel, the loop's wake-up pair and its selector; the listing itself holds one more for a moment.
    assert [kind for kind in kinds if not kind.startswith("/proc")] == ["anon_inode", "socket", "socket", "socket"]
    assert seen["descriptors"]["0"] == "/dev/null"


def test_a_local_worker_loads_no_cryptography_and_no_http_client() -> None:
    code = "import sys, bollard.runtime.__main__; assert not {'cryptography', 'http.client'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_modules_in_the_current_folder_do_not_belong_to_the_plugin(
    launch: Any, write: Any, tmp_path: Path
) -> None:
    plugin = write("echo.py", "import stray\n" + ECHO)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "stray.py").touch()
    for options in ((), ("-P",)):
        driver = await launch(str(plugin), cwd=tmp_path / "elsewhere", options=options)
        assert await driver.exit_code() == 3
        assert "No module named 'stray'" in (await driver.written_line("PL11"))[1]


async def test_a_run_works_over_websocket(write: Any, environment: dict[str, str], make_driver: Any) -> None:
    plugin = write("echo.py", ECHO)
    connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def accept(transport: Any, request: Any) -> None:
        connected.set_result(transport)

    server = await serve_websocket(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    process = await _plain(environment, str(plugin), "--connect", f"ws://127.0.0.1:{port}/")
    try:
        async with asyncio.timeout(120):
            transport = await connected
        driver = make_driver()
        await driver.connect(transport)
        assert driver.host.peer.plugin.name == "echo"
        run = await driver.finished(text="hello")
        assert (run.text, run.is_well_formed) == ("you said hello", True)
        runs = [driver.play(text=str(number)) for number in range(50)]
        for run in runs:
            await run.end()
            assert run.is_well_formed
        driver.host.close("enough")
        async with asyncio.timeout(120):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        server.close()
        await server.wait_closed()


class Hearing:
    """Stands for a worker whose host was last heard at `heard_at`."""

    def __init__(self, heard_at: float) -> None:
        self.heard_at = heard_at
        self.reasons: list[str] = []

    def hang_up(self, reason: str) -> None:
        self.reasons.append(reason)


async def test_a_remote_host_that_is_silent_for_too_long_is_abandoned() -> None:
    now = asyncio.get_running_loop().time()
    silent = Hearing(now - HOST_SILENCE_S)
    async with asyncio.timeout(120):
        await _watch_silence(silent)  # type: ignore[arg-type]
    assert silent.reasons == ["the host was silent for 60 s"]
    heard = Hearing(now)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await _watch_silence(heard)  # type: ignore[arg-type]
    assert heard.reasons == []


async def test_an_unreachable_host_is_reported_with_a_hint(write: Any, environment: dict[str, str]) -> None:
    plugin = write("echo.py", ECHO)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        urls = [f"ws://127.0.0.1:{port}", "http://127.0.0.1", f"wss://127.0.0.1:{port}"]
        results = await asyncio.gather(*(_ended(environment, str(plugin), "--connect", url) for url in urls))
    for url, (code, stderr) in zip(urls, results, strict=True):
        assert (code, "hint: " in stderr, "Traceback" in stderr) == (4, True, False), (url, stderr)


async def test_a_worker_that_fails_to_start_gives_a_reason_and_its_exit_code(
    write: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    plugin = str(write("echo.py", ECHO))
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    ours, theirs = socket.socketpair()
    datagram, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening = socket.create_server(("127.0.0.1", 0))
    variable = "BOLLARD_CHANNEL_FD"
    with ours, theirs, datagram, other, listening:
        good = {variable: str(theirs.fileno())}
        cases: list[tuple[int, str, list[str], dict[str, str], tuple[int, ...]]] = [
            (2, "usage:", [], {}, ()),
            (2, "usage:", [plugin, "--nonsense"], {}, ()),
            (4, "is not set", [plugin], {}, ()),
            (4, "not a connected socket", [plugin], {variable: "99"}, ()),
            (4, "not a connected socket", [plugin], {variable: "1"}, ()),
            (4, "not a connected socket", [plugin], {variable: "-1"}, ()),
            (4, "not a connected socket", [plugin], {variable: "9" * 30}, ()),
            (4, "not a connected socket", [plugin], {variable: "three"}, ()),
            (4, "not a connected", [plugin], {variable: str(listening.fileno())}, (listening.fileno(),)),
            (4, "not a stream socket", [plugin], {variable: str(datagram.fileno())}, (datagram.fileno(),)),
            (3, "PL01", [str(tmp_path / "missing")], good, (theirs.fileno(),)),
            (3, "PL01", [str(tmp_path / "loop")], good, (theirs.fileno(),)),
            (3, "PL01", [str(tmp_path / "notes.txt")], good, (theirs.fileno(),)),
            (3, "PL02", [str(tmp_path / "empty")], good, (theirs.fileno(),)),
        ]
        results = []
        for at in range(0, len(cases), 4):
            batch = cases[at : at + 4]
            results += await asyncio.gather(
                *(_ended({**environment, **env}, *arguments, pass_fds=fds) for _, _, arguments, env, fds in batch)
            )
    for (code, text, arguments, env, _), (found, stderr) in zip(cases, results, strict=True):
        assert (found, text in stderr, "Traceback" in stderr) == (code, True, False), (arguments, env, stderr)
        assert "hint: " in stderr or code == 2, (arguments, env, stderr)


async def _plain(environment: dict[str, str], *arguments: str, pass_fds: tuple[int, ...] = ()) -> Any:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "bollard.runtime",
        *arguments,
        env=environment,
        pass_fds=pass_fds,
        stderr=asyncio.subprocess.PIPE,
    )


async def _ended(environment: dict[str, str], *arguments: str, pass_fds: tuple[int, ...] = ()) -> tuple[int, str]:
    process = await _plain(environment, *arguments, pass_fds=pass_fds)
    async with asyncio.timeout(120):
        _, stderr = await process.communicate()
    return process.returncode, stderr.decode()
