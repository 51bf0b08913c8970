"""Real programs in a real jail: their reach, its limits, and their ends."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import textwrap
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from bollard.confine.cgroup_places import find_pids_group
from bollard.confine.errors import JailBroken, LevelMissing, OverLimit
from bollard.confine.launcher import Program, run_confined
from bollard.confine.limits import PRINTED_BYTES
from bollard.confine.probe import Findings, choose_confinement

pytestmark = pytest.mark.anyio
WAIT_S = 60.0


async def is_released(lock: Path) -> bool:
    """Waits until the lock is free: its holder has ended."""
    with lock.open("r+") as file:
        async with asyncio.timeout(WAIT_S):
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                await asyncio.sleep(0.01)


@pytest.fixture
def ready(folder: Path) -> Iterator[Callable[[], Awaitable[None]]]:
    """Waits for a write into the pipe `ready`."""
    os.mkfifo(folder / "ready")
    descriptor = os.open(folder / "ready", os.O_RDONLY | os.O_NONBLOCK)

    async def written() -> None:
        loop, seen = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, seen.set)
        try:
            await asyncio.wait_for(seen.wait(), WAIT_S)
        finally:
            loop.remove_reader(descriptor)

    yield written
    os.close(descriptor)


READY = "open('ready', 'w').write('.'); time.sleep(600)"


async def test_a_program_works_in_its_folder_and_returns_its_exit_code(run, folder: Path):
    (folder / "in.txt").write_text("given")
    ended = await run(
        "/bin/sh", "-c", "cat in.txt; read word; echo $word; echo made > out.txt; echo no >&2; exit 7", stdin="read\n"
    )
    assert (ended.code, ended.stdout, ended.stderr) == (7, b"givenread\n", b"no\n")
    assert (folder / "out.txt").read_text() == "made\n"
    assert (await run("/bin/sh", "-c", "kill -TERM $$; sleep 1")).code == -signal.SIGTERM


async def test_a_program_cannot_read_write_change_or_remove_outside_files(python, outside: Path):
    before = os.stat(outside / "secret.txt")
    attempts = f"""
        import os
        secret, place = {str(outside / "secret.txt")!r}, {str(outside)!r}
        os.symlink(secret, "link")
        attempts = dict(
            read=lambda: open(secret).read(),
            through_link=lambda: open("link").read(),
            append=lambda: open(secret, "a").write("x"),
            truncate=lambda: os.truncate(secret, 0),
            list=lambda: os.listdir(place),
            make=lambda: open(place + "/new", "w"),
            folder=lambda: os.mkdir(place + "/new"),
            remove=lambda: os.unlink(secret),
            away=lambda: os.rename(secret, "taken"),
            over=lambda: (open("mine", "w").close(), os.rename("mine", secret)),
            hard_link=lambda: os.link(secret, "taken"),
            mode=lambda: os.chmod(secret, 0o777),
            owner=lambda: os.chown(secret, os.getuid(), os.getgid()),
            time=lambda: os.utime(secret, (1, 1)),
            attribute=lambda: os.setxattr(secret, "user.x", b"x"),
            chroot=lambda: os.chroot(place),
            memory=lambda: open("/proc/self/environ").read(),
            temporary=lambda: open("/tmp/bollard-jail-test", "w"),
            shared=lambda: open("/dev/shm/bollard-jail-test", "w"),
        )
        for name, attempt in attempts.items():
            try:
                attempt()
                print("reached", name)
            except OSError:
                pass
        print("tried", len(attempts))
    """
    ended = await python(textwrap.dedent(attempts))
    assert (ended.code, ended.stdout.decode().splitlines()) == (0, ["tried 19"]), ended
    after = os.stat(outside / "secret.txt")
    assert (after.st_mode, after.st_mtime_ns, after.st_size, after.st_nlink) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_size,
        1,
    )
    assert os.listdir(outside) == ["secret.txt"]


async def test_a_program_has_no_network_and_no_foreign_socket(python, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        server.settimeout(0)
        local.settimeout(0)
        code = f"""
            import socket
            tried = 0
            for family, kind, address in (
                (socket.AF_INET, socket.SOCK_STREAM, {server.getsockname()!r}),
                (socket.AF_INET, socket.SOCK_DGRAM, {server.getsockname()!r}),
                (socket.AF_INET6, socket.SOCK_STREAM, ("::1", {server.getsockname()[1]})),
                (socket.AF_UNIX, socket.SOCK_STREAM, {str(tmp_path / "socket")!r}),
                (socket.AF_NETLINK, socket.SOCK_RAW, (0, 0)),
                (socket.AF_PACKET, socket.SOCK_RAW, ("lo", 0)),
            ):
                tried += 1
                try:
                    socket.socket(family, kind).connect(address)
                    print("reached", family)
                except OSError:
                    pass
            one, other = socket.socketpair()
            one.send(b"a pair is fine")
            print(tried, other.recv(100).decode())
        """
        ended = await python(textwrap.dedent(code))
        assert (ended.code, ended.stdout) == (0, b"6 a pair is fine\n"), ended
        for listening in (server, local):
            with pytest.raises(BlockingIOError):
                listening.accept()


async def test_a_socket_pair_cannot_send_to_a_foreign_socket(python, tmp_path: Path):
    """An end of a pair of datagram sockets may name another address with each message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(0)
        code = f"""
            import socket
            tried = []
            for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK,
                         socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
                try:
                    one, other = socket.socketpair(socket.AF_UNIX, kind)
                    one.send(b"a pair is fine")
                    tried.append(other.recv(100))
                    one.sendto(b"forged line", {str(tmp_path / "log")!r})
                except OSError:
                    pass
            print(len(tried), set(tried))
        """
        ended = await python(textwrap.dedent(code))
        assert (ended.code, ended.stdout) == (0, b"2 {b'a pair is fine'}\n"), ended
        with pytest.raises(BlockingIOError):
            log.recv(100)


async def test_a_program_gets_no_notice_of_files_of_other_runs(python, outside: Path):
    code = f"""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        listening = [libc.inotify_init(), libc.inotify_init1(0)]
        print([libc.inotify_add_watch(each, {str(outside).encode()!r}, 0xFFF) for each in listening])
    """
    ended = await python(textwrap.dedent(code))
    assert (ended.code, ended.stdout) == (0, b"[-1, -1]\n"), ended


async def test_the_known_escapes_from_a_jail_are_closed(python):
    code = """
        import ctypes, errno, platform
        libc = ctypes.CDLL(None, use_errno=True)
        calls = dict(unshare=272, setns=308, ptrace=101, mount=165, pivot_root=155, bpf=321, io_uring_setup=425,
            clone3=435, open_by_handle_at=304, process_vm_readv=310, keyctl=250, memfd_create=319, perf_event_open=298,
            userfaultfd=323, open_tree=428, fsopen=430, mount_setattr=442, pidfd_getfd=438, shmget=29, setpriority=141)
        arm = dict(unshare=97, setns=268, ptrace=117, mount=40, pivot_root=41, bpf=280, open_by_handle_at=265,
            process_vm_readv=270, keyctl=219, memfd_create=279, perf_event_open=241, userfaultfd=282, shmget=194,
            setpriority=140)
        if platform.machine() == "aarch64":
            calls |= arm
        calls["a call of the future"] = 9000
        for name, number in calls.items():
            result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
            if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
                print("open:", name, result, errno.errorcode.get(ctypes.get_errno()))
        if libc.clone(None, None, ctypes.c_int(0x10000000), None) >= 0:
            print("open: clone")
        capabilities = [number for number in range(40) if libc.prctl(23, number, 0, 0, 0) == 1]
        print(len(calls), "shut", capabilities, libc.prctl(39, 0, 0, 0, 0))
    """
    ended = await python(textwrap.dedent(code))
    assert (ended.code, ended.stdout) == (0, b"21 shut [] 1\n"), ended


async def test_processes_outside_cannot_be_signalled(python):
    victim = await asyncio.create_subprocess_exec("/bin/sleep", "600")
    try:
        code = f"""
            import os
            for pid in ({victim.pid}, {os.getpid()}):
                for number in (0, 15):
                    try:
                        os.kill(pid, number)
                        print("reached", pid)
                    except OSError:
                        pass
        """
        ended = await python(textwrap.dedent(code))
        assert (ended.code, ended.stdout) == (0, b"")
        assert victim.returncode is None
    finally:
        victim.kill()
        await victim.wait()


async def test_the_number_of_processes_is_limited_also_for_the_superuser(python):
    code = """
        import os, time
        made = 0
        for _ in range(200):
            try:
                child = os.fork()
            except OSError:
                break
            if child == 0:
                time.sleep(600)
                os._exit(0)
            made += 1
        print(made)
    """
    ended = await python(textwrap.dedent(code), processes=30)
    assert ended.code == 0
    assert 0 < int(ended.stdout) <= 30


LEAVING = """
    import fcntl, os, sys, time
    held = open("held", "w")
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.setsid()
        except OSError:
            pass  # not without a namespace that ends with the jail
        if os.fork() == 0:
            fcntl.flock(held, fcntl.LOCK_EX)
            os.write(writing, b"held")
            os.close(1)
            os.close(2)
            time.sleep(600)
        os._exit(0)
    held.close()
    os.read(reading, 4)
    print("left", flush=True)
"""


async def test_background_processes_of_a_program_end_with_it(python, folder: Path):
    ended = await python(textwrap.dedent(LEAVING) + "os._exit(3)")
    assert (ended.code, ended.stdout) == (3, b"left\n")
    assert await is_released(folder / "held")


async def test_a_program_that_takes_too_long_is_stopped_with_its_children(python, folder: Path):
    ended = await python(textwrap.dedent(LEAVING) + "time.sleep(600)", timeout_s=2)
    assert (ended.code, ended.stopped) == (None, "timeout")
    if ended.stdout:  # on a machine so busy that it had not begun, there is nothing to look at
        assert await is_released(folder / "held")


async def test_a_cancelled_call_ends_its_program(python, folder: Path, ready):
    task = asyncio.create_task(python(textwrap.dedent(LEAVING) + READY))
    await ready()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_released(folder / "held")


async def test_a_program_ends_when_its_host_is_killed(confinement, folder: Path, ready):
    inner = textwrap.dedent(LEAVING) + READY
    host = f"""
        import asyncio, os, sys
        from pathlib import Path
        from bollard.confine.launcher import Program, run_confined
        from bollard.confine.probe import Confinement, Findings
        folder = Path({str(folder)!r})
        confinement = {confinement!r}
        python = os.path.join(sys.base_prefix, "bin", "python%d.%d" % sys.version_info[:2])
        program = Program(argv=(python, "-I", "-S", "-c", {inner!r}),
            cwd=folder, writable=(folder,), timeout_s=600, output_bytes=1000)
        asyncio.run(run_confined(program, confinement))
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(host), stdout=DEVNULL)
    try:
        await ready()
    finally:
        process.kill()
        await process.wait()
    assert await is_released(folder / "held")


async def test_output_is_kept_up_to_a_limit_and_counted(run):
    ended = await run("/bin/sh", "-c", "head -c 300000 /dev/zero; head -c 10 /dev/zero >&2", output_bytes=1000)
    assert (ended.code, len(ended.stdout), ended.stdout_bytes, ended.stderr_bytes) == (0, 1000, 300_000, 10)
    endless = await run("/bin/sh", "-c", "yes", output_bytes=1000)
    assert (endless.stopped, len(endless.stdout)) == ("output", 1000)
    assert endless.stdout_bytes > PRINTED_BYTES


async def test_memory_files_and_the_watcher_stop_a_program(python, run):
    ended = await python("x = bytearray(1 << 30)", memory_bytes=512 << 20)
    assert ended.code == 1
    assert b"MemoryError" in ended.stderr
    ended = await run("/bin/sh", "-c", "head -c 200000000 /dev/zero > large; stat -c %s large")
    assert (ended.code, ended.stdout) == (0, b"%d\n" % (128 << 20))
    ended = await run("/bin/sleep", "600", watch=lambda: "room")
    assert (ended.code, ended.stopped) == (None, "room")


async def test_a_program_inherits_nothing_from_the_host(python, monkeypatch):
    monkeypatch.setenv("BOLLARD_TEST_SECRET", "canary")
    reading, writing = os.pipe()
    try:
        os.set_inheritable(writing, True)
        code = """
            import os
            found = []
            for descriptor in range(3, 200):
                try:
                    found.append((descriptor, os.fstat(descriptor)))
                except OSError:
                    pass
            print(sorted(name for name in os.environ if not name.startswith(("LC_", "PWD"))), found)
        """
        ended = await python(textwrap.dedent(code))
        assert (ended.code, ended.stdout) == (0, b"['PATH'] []\n"), ended
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_program_that_cannot_start_is_reported(run, confinement, folder: Path):
    with pytest.raises(JailBroken, match="No such file"):
        await run("/usr/bin/there-is-no-such-program")
    with pytest.raises(JailBroken):
        await run_confined(
            Program(argv=("/bin/true",), cwd=folder / "absent", writable=(), timeout_s=WAIT_S, output_bytes=1),
            confinement,
        )
    with pytest.raises(OverLimit):
        await run("/bin/echo", "x" * (2 << 20))


async def test_bubblewrap_confines_if_present_and_is_refused_otherwise(findings: Findings, folder: Path, outside: Path):
    confinement = choose_confinement("bubblewrap", findings)
    program = Program(
        argv=("/bin/sh", "-c", f"echo made > out.txt; cat {outside}/secret.txt"),
        cwd=folder,
        writable=(folder,),
        environment={"PATH": os.defpath},
        timeout_s=WAIT_S,
        output_bytes=1000,
    )
    if not findings.bubblewrap:
        with pytest.raises(LevelMissing, match="needs bubblewrap"):
            await run_confined(program, confinement)
        assert not (folder / "out.txt").exists()
        return
    ended = await run_confined(program, confinement)
    assert b"canary" not in ended.stdout + ended.stderr
    assert (folder / "out.txt").read_text() == "made\n"


async def test_no_process_group_is_left(run):
    place = find_pids_group()
    await run("/bin/true")
    if place is not None:
        with contextlib.suppress(FileNotFoundError):
            assert not list(place.glob(f"bollard-*-{os.getpid()}-*"))
