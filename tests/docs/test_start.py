"""The product, started exactly by the README, with only Python, make and git.

A copy of the tree as git knows it, an empty home, a short PATH. `make run` sets everything up for real, so the packages
come from the sources of pip and uv on this machine. Without an index, `BOLLARD_START_VENV` names an existing
environment, whose packages are then lent to the copy; everything else stays unchanged.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port

pytestmark = pytest.mark.full


SETUP_S = 300.0
"""From a clone to a host that listens."""
DOCUMENTED = "http://127.0.0.1:8420"
TOOLS = re.compile(
    r"basename|bash|cat|chmod|cp|curl|cut|date|dirname|echo|env|expr|find|git|grep|head|id|ln|ls|make|mkdir|mktemp|mv"
    r"|printf|readlink|realpath|rm|sed|sh|sleep|sort|tail|touch|tr|true|uname|uniq|wc|xargs"
)
"""The programs of every Linux, with those that the README requires."""
PACKAGES = re.compile(r"(PIP|UV)_\w+|(https?|no)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE", re.IGNORECASE)
"""Variables that say where this machine gets packages from."""


@dataclass
class Newcomer:
    """A user with a clone, two terminals and the README. Variables are kept from one command to the next."""

    clone: Path
    environment: dict[str, str]
    terminal: Any
    state: Path
    cloned: frozenset[str]
    """The content of the clone before the first command."""
    printed: list[str] = field(default_factory=list[str])

    def types(self, command: str) -> tuple[int, str]:
        """One command line in the second terminal; variables live on, as they do there."""
        lived = f"set -a; [ ! -e '{self.state}' ] || . '{self.state}'; {self._known(command)}\n"
        code, printed = self.terminal.run(
            f"{lived}code=$?; export -p >'{self.state}'; exit $code", self.clone, self.environment
        )
        self.printed.append(printed)
        return code, printed

    def _known(self, command: str) -> str:
        """A `…` in a command stands for the rest of a word of earlier output."""
        for begin in re.findall(r"([\w-]+)…", command):
            words = re.findall(rf"\b{re.escape(begin)}[\w-]+", "\n".join(self.printed))
            assert words, f"nothing that was printed begins with {begin}"
            command = command.replace(f"{begin}…", words[0])
        return command


def _copy_of(root: Path, target: Path) -> Path:
    """The content of `git clone`, with uncommitted changes."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    return target


def _short_path(folder: Path) -> Path:
    folder.mkdir()
    for place in (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")):
        for tool in place.iterdir() if place.is_dir() else ():
            if TOOLS.fullmatch(tool.name) and not (folder / tool.name).exists():
                (folder / tool.name).symlink_to(tool)
    (folder / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    return folder


def _lend(lent: Path, clone: Path) -> None:
    """An environment of the clone's own that finds the packages of another one, and never writes there."""
    own = clone / ".venv"
    venv.create(own, symlinks=True)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(lent), "platbase": str(lent)})
    paths = f"{clone / 'src'}\n{packages}\n"
    Path(sysconfig.get_path("purelib", "venv", {"base": str(own)}), "lent.pth").write_text(paths, encoding="utf-8")
    command = f"#!{own / 'bin' / 'python'}\nimport sys\n\nfrom bollard.cli.main import main\n\nsys.exit(main())\n"
    (own / "bin" / "bollard").write_text(command, encoding="utf-8")
    (own / "bin" / "bollard").chmod(0o755)
    (own / ".ready").touch()


@pytest.fixture
def newcomer(root: Path, tmp_path: Path, terminal: Any) -> Newcomer:
    clone = _copy_of(root, tmp_path / "bollard")
    cloned = frozenset(path.name for path in clone.iterdir())
    home = tmp_path / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if PACKAGES.fullmatch(name)}
    environment |= {
        "HOME": str(home),
        "PATH": str(_short_path(tmp_path / "bin")),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "BOLLARD_PORT": str(free_port()),
    }
    if lent := os.environ.get("BOLLARD_START_VENV"):
        _lend(Path(lent).resolve(), clone)
    return Newcomer(clone=clone, environment=environment, terminal=terminal, state=tmp_path / "state", cloned=cloned)


@pytest.fixture
def first_terminal(newcomer: Newcomer) -> Iterator[Any]:
    """`make run`, until the test is over."""
    shown = newcomer.terminal.begin("make run", newcomer.clone, newcomer.environment)
    try:
        yield shown
    finally:
        shown.interrupt()
        shown.end(timeout_s=30.0)


def test_the_readme_starts_the_product_in_an_empty_environment(
    pages: dict[str, Any], newcomer: Newcomer, first_terminal: Any
) -> None:
    for mark in (b"admin token", b"agent demo is ready", b"agent echo is ready"):
        assert first_terminal.until(mark, SETUP_S), first_terminal.printed
    newcomer.printed.append(first_terminal.printed)
    here = f"http://127.0.0.1:{newcomer.environment['BOLLARD_PORT']}"
    typed: list[str] = []
    for block in pages["README.md"].blocks:
        if block.language == "python":
            (newcomer.clone / block.lines[0].removeprefix("# ")).write_text(block.text, encoding="utf-8")
            continue
        commands = newcomer.terminal.commands_of(block.lines) if block.language == "console" else None
        for command, shown in commands or [(line, ["…"]) for line in block.lines]:
            typed.append(command)
            if command.startswith("make "):  # `make run` is in the first terminal; `make test` is what runs this
                continue
            code, printed = newcomer.types(command.replace(DOCUMENTED, here))
            printed = printed.replace(here, DOCUMENTED)
            assert code == 0, f"`{command}` ended with {code}:\n{printed}"
            assert newcomer.terminal.pattern_of(shown or [""]).fullmatch(printed), f"`{command}` printed\n{printed}"
    assert typed[0].startswith("make run"), "the README begins with the start"
    assert len(typed) >= 12
    _leaves_nothing_elsewhere(newcomer)


def _leaves_nothing_elsewhere(newcomer: Newcomer) -> None:
    """The promise of the README: only the clone, and the credentials of this user's own commands."""
    home = Path(newcomer.environment["HOME"])
    kept = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert {name for name in kept if not name.startswith(".cache/")} == {".config/bollard/credentials.json"}
    made = {path.name for path in newcomer.clone.iterdir()} - newcomer.cloned
    assert made - {".uv"} == {".venv", "data", "hello.py"}  # .uv is not made where the environment was lent
