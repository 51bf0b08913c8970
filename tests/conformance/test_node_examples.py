"""The JavaScript examples and the snippets of the pages about workers really run."""

import re
import subprocess
import sys
from pathlib import Path

from bollard.conformance.judge import ObservedRun
from bollard.conformance.scripted_run import run_request
from bollard.conformance.session import Session, open_session
from bollard.protocol import JsonObject

ROOT = Path(__file__).parents[2]
NODE_EXAMPLES = ROOT / "examples/workers/node"
PAGES = (
    ROOT / "docs/reference/conformance.md",
    ROOT / "docs/guides/write-a-worker.md",
    NODE_EXAMPLES / "README.md",
    ROOT / "examples/conformance/README.md",
)
WORKERS_UNDER_TEST = {"python -m bollard.runtime examples/conformance", "node examples/workers/node/conformance.mjs"}


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def _start(session: Session, plugin: str) -> ObservedRun:
    request: JsonObject = {**run_request("r1", []), "runner_id": f"plugin:example/{plugin}/default"}
    book = ObservedRun(run_id="r1", credit_at_once=True)
    session.judge.runs["r1"] = book
    book.start_id = session.ask("run/start", {**request, "runner_name": "default"})
    return book


def _text(book: ObservedRun) -> str:
    return "".join(
        result["data"]["chunk"]["content"]  # type: ignore[index, call-overload]
        for result in book.results
        if result["type"] == "message.delta"
    )


async def test_the_echo_worker_repeats_its_input(node: str) -> None:
    async with open_session([node, str(NODE_EXAMPLES / "echo.mjs")]) as session:
        book = _start(session, "echo")
        await session.until(lambda: book.answer, "the end of the run")
        session.raise_violations()
        assert _text(book) == "you said: hello"


async def test_the_runner_of_the_readme_calls_the_host(node: str, tmp_path: Path) -> None:
    (snippet,) = _blocks(NODE_EXAMPLES / "README.md", "js")
    program = tmp_path / "greeter.mjs"
    program.write_text(snippet.replace("./worker.mjs", (NODE_EXAMPLES / "worker.mjs").as_uri()), encoding="utf-8")
    async with open_session([node, str(program)]) as session:
        book = _start(session, "greeter")
        session.reply(await session.next_call("host.info"), {"host_version": "7", "protocol": 1})
        await session.until(lambda: book.answer, "the end of the run")
        session.raise_violations()
        assert _text(book) == "hello from host 7"


def test_the_python_snippet_of_the_reference_runs() -> None:
    (snippet,) = _blocks(ROOT / "docs/reference/conformance.md", "python")
    done = subprocess.run([sys.executable, "-c", snippet], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "credit_by_count True" in done.stdout


def test_the_commands_on_the_pages_name_workers_that_are_tested() -> None:
    lines = [line for page in PAGES for block in _blocks(page, "sh") for line in block.splitlines()]
    commands = {line.partition(" -- ")[2] for line in lines if line.startswith("bollard conformance ")}
    assert commands == WORKERS_UNDER_TEST
