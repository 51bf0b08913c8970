"""The first schema, from the statements that a new database runs without Alembic."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_schema(revision)
