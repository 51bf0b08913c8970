"""What runs do: their calls, approvals, flow bits; and secrets, MCP servers and skills that people save."""

from alembic import op

from bollard.host.store.migrations.third_schema import POSTGRES, REVISION, SQLITE

revision = REVISION
down_revision = "0002"


def upgrade() -> None:
    connection = op.get_bind()
    for statement in POSTGRES if connection.dialect.name == "postgresql" else SQLITE:
        connection.exec_driver_sql(statement)
