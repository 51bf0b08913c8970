"""The description against a real host: every generated request gets a documented answer.

A seeded slice of all possible requests; SCHEMATHESIS_EXAMPLES makes it larger, SCHEMATHESIS_SEED another one. The
settings are in schemathesis.toml.
"""

import json
import os
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.full


HERE = Path(__file__).parent
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "3"))
"""Cases for each operation, beside those that follow from its schema."""
SEED = os.environ.get("SCHEMATHESIS_SEED", "7")
PARROT = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Parrot")
    async def parrot(ctx: RunContext):
        for word in (ctx.input.text or "").split():
            yield ctx.delta(word + " ")
"""
RUN_OPERATIONS = ("createRun", "getRun", "listRunRecords", "streamRun", "getRunGrant", "cancelRun")
TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Asked:
    """A running host, and its token with every right."""

    address: str
    token: str
    folder: Path


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """`bollard up` on a free port: a separate process behind a socket."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "parrot.py").write_text(textwrap.dedent(PARROT), encoding="utf-8")
    (folder / "openapi.json").write_bytes((HERE.parents[2] / "docs/reference/openapi.json").read_bytes())
    command = [str(Path(sys.executable).with_name("bollard")), "up", "--port", "0", "--plugins", "parrot.py"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=folder, env={**os.environ, "HOME": str(folder)}, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            assert process.stdout is not None
            told = {}
            while told.get("agent.ready", {}).get("agent") != "parrot":
                line = json.loads(process.stdout.readline())
                told[line["event"]] = line
            yield Asked(told["listening"]["address"], told["token"]["token"], folder)
            assert process.poll() is None, "the host is gone"
        finally:
            process.terminate()


def explore(asked: Asked, *options: str, config: Path = HERE / "schemathesis.toml") -> str:
    """Run schemathesis; fails with its findings."""
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config)]
    command += ["run", "openapi.json", "--url", asked.address, "--header", f"Authorization: Bearer {asked.token}"]
    command += ["--seed", SEED, "--no-color", *options]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(HERE / "schemathesis_hooks.py"), "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, cwd=asked.folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        start = min((at for at in map(done.stdout.find, ("= ERRORS =", "= FAILURES =")) if at >= 0), default=0)
        end = done.stdout.find("= WARNINGS =", start)
        found = done.stdout[start : end if end >= 0 else None]
        pytest.fail(f"{' '.join(options)}\n{found[:12_000]}\n{done.stderr[-2000:]}", pytrace=False)
    return done.stdout


@pytest.mark.parametrize("phase", ["examples,coverage", "fuzzing"])
def test_every_generated_request_gets_a_documented_answer(asked: Asked, phase: str) -> None:
    """No 5xx, no undocumented answer; an invalid request is refused, and so is one without a token."""
    said = explore(asked, "--phases", phase, "--max-examples", str(EXAMPLES))
    assert "Tested: 0" not in said


def only(*names: str) -> list[str]:
    return [part for name in names for part in ("--include-operation-id", name)]


def test_a_run_is_read_and_stopped_by_the_links_of_its_creation(asked: Asked) -> None:
    said = explore(asked, "--phases", "stateful", *only(*RUN_OPERATIONS))
    assert f"{len(RUN_OPERATIONS) - 1} covered" in said


@pytest.mark.parametrize(
    "names", [("appendRunResults", "steerRun", "explainRunGrant"), ("revokeRunGrant", "finalizeRun")], ids="-".join
)
def test_every_generated_request_to_an_active_run_gets_a_documented_answer(
    asked: Asked, names: tuple[str, ...]
) -> None:
    """A run without a worker: it stays active until a request ends it."""
    run_id = _external_run(asked, "-".join(names))
    config = asked.folder / f"{run_id}.toml"
    common = (HERE / "schemathesis.toml").read_text(encoding="utf-8")
    config.write_text(common.replace("[parameters]", f'[parameters]\n"path.run_id" = "{run_id}"'), encoding="utf-8")
    phases = ("--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES * 5))
    explore(asked, *phases, *only(*names), config=config)


def _external_run(asked: Asked, conversation: str) -> str:
    body = json.dumps({"agent": "parrot", "execution": "external", "conversation": conversation}).encode()
    headers = {"authorization": f"Bearer {asked.token}", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{asked.address}/api/v1/runs", body, headers)) as answer:
        return json.load(answer)["run_id"]


def test_no_generated_request_failed_inside_the_host(asked: Asked) -> None:
    """Runs behind the tests above: a mistake of ours that was answered politely is in the log."""
    log = (asked.folder / "log").read_text(encoding="utf-8")
    assert "a request failed" not in log
    assert "Traceback" not in log
