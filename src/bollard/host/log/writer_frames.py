"""The messages between the host and its journal process, in MessagePack."""

from typing import Any, Final

import msgspec

from bollard.host import errors
from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.log.entries import CommitResult, Entry
from bollard.host.log.journal import WriterNumbers
from bollard.host.log.records import RunFacts
from bollard.host.store.rows import HeadRow


class Begin(msgspec.Struct, tag=True, array_like=True):
    """The database to write, and the identity of the writer."""

    database: str
    data: str
    incarnation: str
    key_id: str
    broken_log: str = ""


class Work(msgspec.Struct, tag=True, array_like=True):
    """Entries, in order. `hurried`: a caller waits for entries that were sent before."""

    entries: list[Entry]
    hurried: bool = False


class Recall(msgspec.Struct, tag=True, array_like=True):
    """The facts of an unfinished run of an earlier incarnation."""

    facts: RunFacts


class Close(msgspec.Struct, tag=True, array_like=True):
    """Write the queued entries, then stop."""


class Signature(msgspec.Struct, tag=True, array_like=True):
    """The host's response to `Sign`."""

    signature: bytes


class Failure(msgspec.Struct, tag=True, array_like=True):
    """A `HostError`, by the name of its class. `details` hold its reason."""

    kind: str
    message: str
    hint: str
    details: dict[str, Any]

    def error(self) -> HostError:
        error_class = getattr(errors, self.kind, None)
        if not (isinstance(error_class, type) and issubclass(error_class, HostError)):
            error_class = StorageUnavailable
        return error_class(self.message, hint=self.hint, **self.details)


class Opened(msgspec.Struct, tag=True, array_like=True):
    """Ready to write."""


class Refused(msgspec.Struct, tag=True, array_like=True):
    """The store cannot be opened."""

    failure: Failure


class Written(msgspec.Struct, tag=True, array_like=True):
    """The results of the oldest entries, in order, and the heads that were signed since the last report."""

    outcomes: list[CommitResult | Failure]
    numbers: WriterNumbers
    heads: list[HeadRow] = []


class Sign(msgspec.Struct, tag=True, array_like=True):
    """The text of a head. The writer waits for the signature, which is part of the same commit."""

    text: bytes


class Closed(msgspec.Struct, tag=True, array_like=True):
    """All entries are on disk."""


FromHost = Begin | Work | Recall | Signature | Close
FromWriter = Opened | Refused | Written | Sign | Closed

encode_frame: Final = msgspec.msgpack.Encoder().encode
decode_from_host: Final = msgspec.msgpack.Decoder(FromHost).decode
decode_from_writer: Final = msgspec.msgpack.Decoder(FromWriter).decode


def failure_of(error: HostError) -> Failure:
    return Failure(type(error).__name__, error.message, error.hint, dict(error.details))
