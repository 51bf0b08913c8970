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
    """What to write to, and as whom."""

    database: str
    data: str
    incarnation: str
    key_id: str
    broken_log: str = ""


class Work(msgspec.Struct, tag=True, array_like=True):
    """Entries, in order. Hurried: somebody waits for what was put before."""

    entries: list[Entry]
    hurried: bool = False


class Recall(msgspec.Struct, tag=True, array_like=True):
    """A run of an earlier incarnation that goes on."""

    facts: RunFacts


class Close(msgspec.Struct, tag=True, array_like=True):
    """Write what was put, then stop."""


class Signature(msgspec.Struct, tag=True, array_like=True):
    """The host's, of what it was asked to sign."""

    signature: bytes


class Failure(msgspec.Struct, tag=True, array_like=True):
    """A `HostError` by the name of its class."""

    kind: str
    message: str
    hint: str
    details: dict[str, Any]

    def error(self) -> HostError:
        known = getattr(errors, self.kind, None)
        made = known if isinstance(known, type) and issubclass(known, HostError) else StorageUnavailable
        return made(self.message, hint=self.hint, **self.details)


class Opened(msgspec.Struct, tag=True, array_like=True):
    """Ready to write."""


class Refused(msgspec.Struct, tag=True, array_like=True):
    """Cannot be opened."""

    failure: Failure


class Written(msgspec.Struct, tag=True, array_like=True):
    """The fates of the oldest entries, in order, and the heads that were signed with them or since."""

    fates: list[CommitResult | Failure]
    numbers: WriterNumbers
    heads: list[HeadRow] = []


class Sign(msgspec.Struct, tag=True, array_like=True):
    """The text of a head. The writer waits: the signature goes into the commit that the head is of."""

    text: bytes


class Closed(msgspec.Struct, tag=True, array_like=True):
    """Everything is on disk."""


FromHost = Begin | Work | Recall | Signature | Close
FromWriter = Opened | Refused | Written | Sign | Closed

encode_frame: Final = msgspec.msgpack.Encoder().encode
decode_from_host: Final = msgspec.msgpack.Decoder(FromHost).decode
decode_from_writer: Final = msgspec.msgpack.Decoder(FromWriter).decode


def failure_of(error: HostError) -> Failure:
    return Failure(type(error).__name__, error.message, error.hint, dict(error.details))
