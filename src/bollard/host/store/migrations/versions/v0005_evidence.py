"""The newest record of each saved thing, and the HMAC of what is kept beside the log."""

from alembic import op

from bollard.host.store.migrations.fifth_schema import POSTGRES, REVISION, SQLITE

revision = REVISION
down_revision = "0004"


def upgrade() -> None:
    connection = op.get_bind()
    for statement in POSTGRES if connection.dialect.name == "postgresql" else SQLITE:
        connection.exec_driver_sql(statement)
