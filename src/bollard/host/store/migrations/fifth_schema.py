"""What revision 0005 adds, as plain statements: an index that finds the newest record of each saved thing, and the HMAC
of what is kept beside the log. A new database runs them behind those of the fourth revision; the migration of an older
one runs the same. The HMACs of rows that are there already are made when the store is opened (`Store.open`).
"""

from typing import Final

REVISION: Final = "0005"

# The data of `policy.changed` is `{"kind":…,"id":…,"action":…}`: what stands before the action names the thing. A quote
# inside of a name is escaped, so these bytes occur at that place only. No JSON function is both immutable and never
# fails on PostgreSQL.
_BEFORE_ACTION: Final = b'","action":"'.hex()
SQLITE_SAVED_THING: Final = f"substr(data, 1, instr(data, X'{_BEFORE_ACTION}'))"
POSTGRES_SAVED_THING: Final = f"substring(data from 1 for position('\\x{_BEFORE_ACTION}'::bytea in data))"

_INDEX: Final = "CREATE INDEX records_of_saved ON records (workspace, ({thing}), id) WHERE type = 'policy.changed'"

SQLITE: Final = ("ALTER TABLE kept ADD COLUMN mac BLOB", _INDEX.format(thing=SQLITE_SAVED_THING))
POSTGRES: Final = ("ALTER TABLE kept ADD COLUMN mac BYTEA", _INDEX.format(thing=POSTGRES_SAVED_THING))
