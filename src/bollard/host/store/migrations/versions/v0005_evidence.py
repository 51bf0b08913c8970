"""An index of the newest record of each saved resource, and the HMAC of data beside the log."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_schema(revision)
