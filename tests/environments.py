"""New virtual environments: the built wheel and other packages, without anything of this environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LEAKY = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
"""Variables that would bring parts of this environment along."""


def clean_variables(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in LEAKY} | more


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """Run a command, which must succeed, and return its output."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=clean_variables(**more), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def find_uv(repository: Path) -> str | None:
    """The uv of `scripts/setup`."""
    own = repository / ".uv" / "bin" / "uv"
    return shutil.which("uv") or (str(own) if own.exists() else None)


class Environment:
    """A new virtual environment in a folder."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self._repository = repository
        self._uv = find_uv(repository)
        self._folder = folder
        self.site = folder / "venv"
        self.python = self.site / "bin" / "python"
        create = [self._uv, "venv", "--quiet", "--no-project", "--python", sys.executable] if self._uv else None
        run(*(create or [sys.executable, "-m", "venv"]), self.site, cwd=folder)

    def build_wheel(self, sources: Path | None = None) -> Path:
        """Build the wheel of the repository, or of a folder with a part of it."""
        dist, sources = self._folder / "dist", sources or self._repository
        if self._uv:
            self._cached("build", "--quiet", "--wheel", "--out-dir", dist, sources)
        else:
            build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", dist)
            run(*build, sources, cwd=self._folder)
        (wheel,) = dist.glob("bollard-*.whl")
        return wheel

    def install(self, *packages: str | Path, deps: bool = True) -> None:
        """Install packages: from the cache of the set-up, or from the index."""
        options = () if deps else ("--no-deps",)
        if self._uv:
            self._cached("pip", "install", "--quiet", "--python", self.python, *options, *packages)
        else:
            run(self.python, "-m", "pip", "install", "--quiet", *options, *packages, cwd=self._folder)

    def _cached(self, *command: str | Path) -> None:
        assert self._uv is not None
        offline = [self._uv, *map(str, command), "--offline"]
        done = subprocess.run(offline, cwd=self._folder, env=clean_variables(), capture_output=True, check=False)
        if done.returncode != 0:
            run(self._uv, *command, cwd=self._folder)
