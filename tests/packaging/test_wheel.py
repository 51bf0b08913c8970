"""The wheel that the container builds, in an empty environment: a host starts, answers, and its hints name commands
that work there."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

import psycopg
import pytest
import yaml
from tests.environments import Environment, clean_variables, run
from tests.host.conftest import find_server
from tests.ports import free_port

pytestmark = pytest.mark.full

HELLO = """
from bollard.sdk import RunContext, runner

@runner(label="Hello")
async def hello(ctx: RunContext):
    yield ctx.delta(f"hello, {ctx.input.text}")
"""


@pytest.fixture(scope="module")
def containerfile(repository: Path) -> str:
    return (repository / "deploy/Containerfile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def sources(repository: Path, containerfile: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the container's first stage copies, and nothing else."""
    folder = tmp_path_factory.mktemp("sources")
    for *copied, place in (line.split() for line in re.findall(r"^COPY ([^-].*)$", containerfile, re.MULTILINE)):
        for name in copied:
            is_folder = (repository / name).is_dir()
            target = folder / place if is_folder else folder / place / Path(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            if is_folder:
                shutil.copytree(repository / name, target, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
            else:
                shutil.copy(repository / name, target)
    return folder


@pytest.fixture(scope="module")
def installed(
    repository: Path, sources: Path, containerfile: str, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """The wheel with the extras of the container."""
    made = Environment(repository, tmp_path_factory.mktemp("wheel"))
    (extras,) = re.findall(r"'\.(\[[\w,]+\])'", containerfile)
    made.install(f"bollard{extras} @ {made.build_wheel(sources).as_uri()}")
    return made


def test_a_host_of_the_container_starts_is_healthy_and_runs_an_agent(
    installed: Environment, containerfile: str, tmp_path: Path
) -> None:
    bollard, port = installed.site / "bin" / "bollard", str(free_port())
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BOLLARD_PORT": port, "LANG": "en_US.UTF-8"}
    (tmp_path / "hello.py").write_text(HELLO, encoding="utf-8")
    with subprocess.Popen(
        [bollard, "up", "--data", str(tmp_path / "data")],
        cwd=tmp_path,
        env=clean_variables(**own),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as host:
        try:
            assert host.stdout is not None
            ready: set[str] = set()
            while not {"assistant", "demo", "echo"} <= ready:
                line = json.loads(host.stdout.readline())
                ready.add(line.get("agent", "")) if line["event"] == "agent.ready" else None
            (_, code) = json.loads(re.findall(r"CMD (\[.*urlopen.*\])", containerfile)[0])[1:]
            run(installed.python, "-c", code.replace("8420", port), cwd=tmp_path)
            assert "1 2 3" in run(bollard, "chat", "--agent", "demo", "--message", "count 3", cwd=tmp_path, **own)
            run(bollard, "plugin", "install", "hello.py", "--yes", cwd=tmp_path, **own)
            assert "hello, Ada" in run(bollard, "chat", "--agent", "hello", "--message", "Ada", cwd=tmp_path, **own)
            run(installed.python, "-c", "import bollard.sdk.http, bollard.sdk.websocket", cwd=tmp_path)
            run(bollard, "catalogue", "install", "bundled/writing-aid", "--yes", cwd=tmp_path, **own)
            page = Request(f"http://127.0.0.1:{port}/", headers={"accept": "text/html"})
            with urlopen(page, timeout=30) as console:
                assert b"/assets/" in console.read()
            assert json.loads(run(bollard, "doctor", cwd=tmp_path, **own))["healthy"] is True
        finally:
            host.terminate()
            host.wait(timeout=60)
    assert host.returncode == 0


@pytest.fixture
def compose_environment(repository: Path) -> Iterator[dict[str, str]]:
    """The environment of the host in compose.yaml, with a database of its own on the PostgreSQL of this machine."""
    compose = yaml.safe_load((repository / "deploy/compose.yaml").read_text(encoding="utf-8"))
    given = {"BOLLARD_ORIGIN": "https://bollard.example.org", "POSTGRES_PASSWORD": "unused"}
    words = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}")
    found = {
        name: words.sub(lambda match: given.get(match[1]) or match[2] or "", value)
        for name, value in compose["services"]["host"]["environment"].items()
    }
    server = find_server()
    name = f"bollard_wheel_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield found | {"BOLLARD_DATABASE": urlunsplit(urlsplit(server)._replace(path=f"/{name}"))}
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_host_with_the_environment_of_compose_serves_its_proxy(
    installed: Environment, compose_environment: dict[str, str], tmp_path: Path
) -> None:
    bollard, port = installed.site / "bin" / "bollard", str(free_port())
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BOLLARD_PORT": port, "LANG": "en_US.UTF-8"}
    with subprocess.Popen(
        [bollard, "up", "--data", str(tmp_path / "data")],
        cwd=tmp_path,
        env=clean_variables(**own, **compose_environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as host:
        try:
            assert host.stdout is not None
            while json.loads(host.stdout.readline()).get("agent") != "demo":
                pass
            forwarded = {"host": "bollard.example.org", "x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
            with urlopen(Request(f"http://127.0.0.1:{port}/readyz", headers=forwarded), timeout=30) as ready:
                assert json.load(ready) == {"ready": True, "reasons": []}, "others see no details of a public host"
            assert "1 2 3" in run(bollard, "chat", "--agent", "demo", "--message", "count 3", cwd=tmp_path, **own)
        finally:
            host.terminate()
            host.wait(timeout=60)
    assert host.returncode == 0


def test_a_hint_of_the_wheel_names_pip_and_one_of_a_clone_names_make(
    installed: Environment, repository: Path, tmp_path: Path
) -> None:
    code = "from bollard.extras import install_command; print(install_command('mcp'))"
    assert run(installed.python, "-I", "-c", code, cwd=tmp_path) == "pip install 'bollard[mcp]'\n"
    clone = repository / ".venv" / "bin" / "python"
    if os.access(clone, os.X_OK):
        assert run(clone, "-I", "-c", code, cwd=tmp_path) == "make setup\n"
