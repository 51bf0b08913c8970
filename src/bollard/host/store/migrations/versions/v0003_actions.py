"""What runs do: their calls, approvals, flow bits; and secrets, MCP servers and skills that people save."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_schema(revision)
