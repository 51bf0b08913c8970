"""Every command and every snippet of the pages is run, in the order of its page, in a fresh directory.

console      each `$ command` is run on a terminal, and must print the output of the page; `…` stands for anything
sh           each line is run, and must succeed; so are indented lines that begin with a command
python       run as a script; a first line `# name.py` saves it under that name, and `# test_name.py` is run by pytest
yaml, json, js   saved under the name in a first line `# name.yaml` or `// name.mjs`, if there is one
text         not run; it may not look like a command

`make …` and `scripts/…` are looked up instead of being run, because the tests themselves are run by them. `bollard up`
is stopped when its agents are ready. Pages that use a host find one: it listens at a free port, which replaces
`http://127.0.0.1:8420` of the page.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import every_page

NOT_RUN = "text"
RUN = {"console", "sh", "python"}
KEPT = {"yaml", "json", "js"}
TEXT_BLOCKS = 6
"""Blocks of all pages together that may go unrun."""
COMMAND_TIMEOUT_S = 240.0

DOCUMENTED = "http://127.0.0.1:8420"
"""Where pages say that the host listens."""
_ENDLESS = {"bollard plugin dev": b"Try it in another terminal"}
"""Commands that run until Ctrl-C, and their output after the start."""
_LAST_AGENT = {"bollard up --plugins shout.py": "shout"}
_NEEDS_HOST = re.compile(
    r"^(\$ |    )?(.*\| )?([A-Z_]+=\S+ )?"
    r"(bollard (chat|runs|agents|capabilities|bindings|resolve|events|conversations|artifacts|state"
    r"|approvals|channels|schedules|users|keys|secrets|skills|files|knowledge|models|workspaces|whoami"
    r"|mcp|audit show|audit export|plugin install)|RUN=|curl)",
    re.MULTILINE,
)
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S")
_FILE_NAME = re.compile(r"^(?:#|//) ([\w./-]+\.(?:py|yaml|json|mjs))$")


class Reader:
    """Follows one page: runs each block, and fails where the page is wrong."""

    def __init__(
        self,
        page: Any,
        directory: Path,
        environment: Mapping[str, str],
        make_targets: set[str],
        verdicts: dict[str, tuple[int, str]],
        host: Any,
        terminal: Any,
    ) -> None:
        self._page = page
        self._directory = directory
        self._environment = {**environment, **(host.variables if host is not None else {})}
        if page.is_chinese:
            self._environment["BOLLARD_LANG"] = "zh_Hans"
        self._host = host
        self._terminal = terminal
        self._make_targets = make_targets
        self._verdicts = verdicts

    def follow(self, block: Any) -> None:
        where = f"{self._page.name}:{block.line}"
        if block.language == "console":
            for command, shown in self._terminal.commands_of(block.lines):
                self._console(where, command, shown)
        elif block.language == "sh":
            for command in block.lines:
                if command.strip() and not command.startswith("#"):
                    self._console(where, command, ["…"])
        elif block.language in KEPT | {"python"}:
            self._file(where, block)

    def _console(self, where: str, command: str, shown: list[str]) -> None:
        if self._is_looked_up(where, command):
            return
        if _ASSIGNMENT.match(command):
            self._assign(where, command)
            return
        if command.startswith("bollard up"):
            # A host of its own, beside the one that the other commands find.
            free = {**self._environment, "BOLLARD_PORT": "0"}
            agent = _LAST_AGENT.get(command, "echo")
            ready = f"智能体 {agent} 已就绪" if self._page.is_chinese else f"{agent} is ready"
            code, printed = self._terminal.run(command, self._directory, free, ready.encode())
            done = (code, re.sub(r"http://127\.0\.0\.1:\d+", DOCUMENTED, printed))
        else:
            done = self._verdicts.get(command) or self._as_documented(command)
        if command.startswith("bollard conformance "):
            self._verdicts[command] = done
        code, printed = done
        assert code == 0, f"{where}: `{command}` ended with {code}:\n{printed}"
        wanted = shown or [""]
        assert self._terminal.pattern_of(wanted).fullmatch(printed), (
            f"{where}: `{command}` printed\n{printed}\nbut the page shows\n" + "\n".join(shown)
        )

    def _as_documented(self, command: str) -> tuple[int, str]:
        """Run a command on the host that the page means, and let its output name the address that the page names."""
        real = self._host.url if self._host is not None else DOCUMENTED
        mark = next((mark for start, mark in _ENDLESS.items() if command.startswith(start)), None)
        code, printed = self._terminal.run(command.replace(DOCUMENTED, real), self._directory, self._environment, mark)
        return code, printed.replace(real, DOCUMENTED)

    def _assign(self, where: str, command: str) -> None:
        """`NAME=value`, as many as there are: later commands of the page see them."""
        names = re.findall(r"(?:^| )([A-Z_]+)=", command)
        show = "; ".join(f'printf "%s\\0" "${name}"' for name in names)
        real = self._host.url if self._host is not None else DOCUMENTED
        code, printed = self._terminal.run(
            f"{command.replace(DOCUMENTED, real)}; {show}", self._directory, self._environment
        )
        assert code == 0, f"{where}: `{command}` ended with {code}:\n{printed}"
        values = printed.rstrip("\n").split("\0")
        self._environment |= dict(zip(names, values, strict=False))

    def _is_looked_up(self, where: str, command: str) -> bool:
        words = command.partition("#")[0].split()
        if words[0] == "make":
            unknown = [word for word in words[1:] if "=" not in word and word not in self._make_targets]
            assert not unknown, f"{where}: the Makefile has no target {unknown}"
            return True
        if words[0].startswith("scripts/"):
            script = self._page.path.parents[len(Path(self._page.name).parents) - 1] / words[0]
            assert os.access(script, os.X_OK), f"{where}: there is no {words[0]} to run"
            return True
        return False

    def _file(self, where: str, block: Any) -> None:
        named = _FILE_NAME.match(block.lines[0]) if block.lines else None
        if named is None and block.language in KEPT:
            return
        file = self._directory / (named[1] if named else f"block_{block.line}.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
        if block.language != "python":
            return
        is_test = file.name.startswith("test_")
        program = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)] if is_test else [str(file)]
        done = subprocess.run(
            [sys.executable, *program],
            cwd=self._directory,
            env=dict(self._environment),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{where}: ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def test_every_block_of_a_page_works_as_documented(
    running_page: Any,
    reader_directory: Path,
    reader_environment: dict[str, str],
    make_targets: set[str],
    verdicts: dict[str, tuple[int, str]],
    terminal: Any,
    request: pytest.FixtureRequest,
) -> None:
    host = request.getfixturevalue("documented_host") if _NEEDS_HOST.search(running_page.text) else None
    reader = Reader(running_page, reader_directory, reader_environment, make_targets, verdicts, host, terminal)
    for block in running_page.blocks:
        reader.follow(block)


@every_page
def test_every_block_has_a_known_language(page: Any) -> None:
    unknown = [
        f"line {block.line}: {block.language!r}"
        for block in page.blocks
        if block.language not in RUN | KEPT | {NOT_RUN}
    ]
    assert not unknown, f"use one of {sorted(RUN | KEPT | {NOT_RUN})}: {unknown}"


@every_page
def test_no_block_outside_the_tests_contains_a_command(page: Any) -> None:
    command = re.compile(r"^\s*(\$ |(bollard|make|python3?|pytest|uv|pip|node|scripts/\w+) )", re.MULTILINE)
    hidden = [f"line {block.line}" for block in page.blocks if block.language == NOT_RUN and command.search(block.text)]
    assert not hidden, f"write these as console or sh: {hidden}"


def test_few_blocks_are_not_run(pages: dict[str, Any]) -> None:
    unrun = [
        f"{page.name}:{block.line}" for page in pages.values() for block in page.blocks if block.language == NOT_RUN
    ]
    assert len(unrun) <= TEXT_BLOCKS, unrun


# --- the reader itself: it must be able to say no ---


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["hello"], "hello\n"),
        (["hel…"], "hello\n"),
        (["…", "last"], "first\nsecond\nlast\n"),
        (["first", "…"], "first\n"),
        (["a … c (…)"], "a b c (1.2 s)\n"),
    ],
)
def test_an_output_that_matches_the_page_is_accepted(terminal: Any, shown: list[str], printed: str) -> None:
    assert terminal.pattern_of(shown).fullmatch(printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["hello"], "hello\nworld\n"),
        (["hello"], "hell\n"),
        (["a.c"], "abc\n"),
        (["first", "…", "last"], "last\nfirst\n"),
        (["…x"], "one\ntwo x\n"),
    ],
)
def test_an_output_that_differs_from_the_page_is_refused(terminal: Any, shown: list[str], printed: str) -> None:
    assert not terminal.pattern_of(shown).fullmatch(printed)


def test_the_last_text_of_an_overwritten_line_counts(terminal: Any) -> None:
    assert terminal.visible("\x1b[1m10 %\r20 %\x1b[0m\r\ndone\r\n") == "20 %\ndone\n"


def test_a_failing_command_is_noticed(terminal: Any, tmp_path: Path, reader_environment: dict[str, str]) -> None:
    assert terminal.run("echo out; echo err >&2; exit 3", tmp_path, reader_environment) == (3, "out\nerr\n")
