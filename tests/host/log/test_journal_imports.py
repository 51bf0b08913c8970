"""The journal process is small: it loads only the modules of writing, and none of the shapes that the rest of a host
needs."""

import subprocess
import sys

from bollard.host.store.rows import ENDED
from bollard.protocol import TERMINAL_STATUSES

LEFT_OUT = ("pydantic", "bollard.protocol", "starlette", "uvicorn", "sqlalchemy", "alembic", "psycopg", "bollard.wire")


def test_the_journal_process_loads_no_shapes_and_no_server() -> None:
    script = "import sys, bollard.host.log.journal_process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in LEFT_OUT if name in loaded] == []


def test_the_terminal_statuses_of_the_store_match_the_protocol() -> None:
    assert ENDED == TERMINAL_STATUSES
