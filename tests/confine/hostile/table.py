"""The table of docs/reference/sandbox.md: `python -m tests.confine.hostile.table` runs the suite and writes it."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.confine.hostile.probes import AREAS, LEVELS, PROMISES, Row

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs/reference/sandbox.md"
BEGIN: Final = "<!-- hostile suite: begin -->\n"
END: Final = "<!-- hostile suite: end -->\n"
SUITE_S: Final = 300

Outcomes = Mapping[str, str]


def measure(
    level: str,
    probes: Sequence[str] = tuple(PROMISES),
    *,
    network: bool = True,
    user: Sequence[str] = (),
    errors: bool = False,
) -> Outcomes | None:
    """Run probes at a level in a process of its own; `None` if the machine lacks the level. `user` is a command line
    that ends with a Python. With `errors`, an outcome has the error that stopped it."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        flags = [*(["--network"] if network else []), *(["--errors"] if errors else [])]
        arguments = [folder, level, *flags, *probes]
        command = [*(user or (sys.executable,)), "-m", "tests.confine.hostile.run", *arguments]
        if user:
            Path(folder).chmod(0o777)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SUITE_S, check=False)
    if done.returncode != 0 or "Traceback" in done.stderr:
        raise RuntimeError(f"the suite failed at {level}: {done.stdout[-500:]} {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def render(outcomes: Mapping[str, Outcomes]) -> str:
    """Render the outcomes of all levels. Pure."""
    lines = ["| A plugin tries to | probes | `full` | `namespaces` | `landlock` |", "|---|---|---|---|---|"]
    for area in AREAS:
        lines.append(f"| **{area.name}** | | | | |")
        for row in area.rows:
            cells = " | ".join(_cell(row, outcomes[level]) for level in LEVELS)
            lines.append(f"| {row.text} | {len(row.probes)} | {cells} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, outcomes: Outcomes) -> str:
    stopped = sum(outcomes[probe] == "stopped" for probe in row.probes)
    if stopped == len(row.probes):
        return "stopped"
    return "**open**" if stopped == 0 else f"**{len(row.probes) - stopped} open**"


def written() -> str:
    """The table in the page."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    outcomes: dict[str, Outcomes] = {}
    for level in LEVELS:
        found = measure(level)
        if found is None:
            sys.exit(f"this machine lacks the level {level}, and the table needs all of them")
        outcomes[level] = found
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + render(outcomes) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
