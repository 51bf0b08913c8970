"""Webhook routes, schedules, bots and subscriptions."""

from bollard.host.store.migrations.upgrade import run_schema

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_schema(revision)
