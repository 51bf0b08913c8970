"""Calls, approvals and flow bits of runs; saved secrets, MCP servers and skills."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_schema(revision)
