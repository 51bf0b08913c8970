"""Models and knowledge bases that people save."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_schema(revision)
