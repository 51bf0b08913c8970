"""Models and knowledge bases that people save."""

from alembic import op

from bollard.host.store.migrations.fourth_schema import POSTGRES, REVISION, SQLITE

revision = REVISION
down_revision = "0003"


def upgrade() -> None:
    connection = op.get_bind()
    for statement in POSTGRES if connection.dialect.name == "postgresql" else SQLITE:
        connection.exec_driver_sql(statement)
