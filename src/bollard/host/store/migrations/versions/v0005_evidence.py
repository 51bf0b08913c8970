"""The newest record of each saved thing, and the HMAC of what is kept beside the log."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_schema(revision)
