"""Users, keys, workspaces, channels, plugins, and rows beside the log."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_schema(revision)
