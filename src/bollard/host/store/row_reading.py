"""Conversion of a driver's tuples into rows. Pure."""

from collections.abc import Sequence
from typing import Final, TypeVar, cast

import msgspec

from bollard.host.store.rows import KeptRow, OutboxRow, RecordRow

_Row = TypeVar("_Row", bound=msgspec.Struct)
_FLAGS: Final[dict[type[msgspec.Struct], str]] = {RecordRow: "observed", OutboxRow: "preview"}
"""Boolean columns. SQLite has no booleans, and the hash of a record distinguishes `1` from `true`."""


def build_rows(row: type[_Row], tuples: Sequence[tuple[object, ...]]) -> list[_Row]:
    """Build a row from each tuple, whose values are in the order of the row's fields."""
    names, flag = row.__struct_fields__, _FLAGS.get(row)
    if flag is None:
        return [row(**dict(zip(names, values, strict=True))) for values in tuples]
    rows: list[_Row] = []
    for values in tuples:
        fields = dict(zip(names, values, strict=True))
        fields[flag] = bool(fields[flag])
        rows.append(row(**fields))
    return rows


def kept_and_mac(values: tuple[object, ...]) -> tuple[KeptRow, bytes | None]:
    """A row of `kept`, and its HMAC in the last column."""
    (row,) = build_rows(KeptRow, [values[:-1]])
    return row, cast("bytes | None", values[-1])
