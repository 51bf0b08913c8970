"""Builds the console before a wheel or a source archive is made, so that both contain it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface):
    """Called by hatchling. An editable install has no copies of files, so it needs no console."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        sources = Path(self.root) / "console"
        if version == "editable" or os.environ.get("BOLLARD_CONSOLE_BUILD") == "off" or not sources.is_dir():
            return
        done = subprocess.run([sys.executable, Path(self.root) / "scripts/console"], check=False)
        if done.returncode != 0:
            raise RuntimeError("the console could not be built; BOLLARD_CONSOLE_BUILD=off makes a wheel without it")
