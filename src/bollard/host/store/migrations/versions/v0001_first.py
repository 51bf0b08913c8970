"""The first schema, from the statements that a new database runs without Alembic."""

from alembic import op

from bollard.host.store.migrations.first_schema import POSTGRES, REVISION, SQLITE

revision = REVISION
down_revision = None


def upgrade() -> None:
    connection = op.get_bind()
    for statement in POSTGRES if connection.dialect.name == "postgresql" else SQLITE:
        connection.exec_driver_sql(statement)
