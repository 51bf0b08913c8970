"""Handles of files in the events of a channel: the program behind the channel keeps a file until it is read. Pure."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from bollard.host.channels.channel import SavedChannel
from bollard.host.egress.destination import Destination
from bollard.host.errors import InvalidRequest
from bollard.host.files.message_file import MessageFile
from bollard.host.limits import EGRESS_URL_CHARACTERS, FILE_NAME_CHARACTERS
from bollard.host.runs.event import NewEvent
from bollard.protocol import Int, Strict


class FileHandle(Strict):
    """A file that the program behind a channel keeps until it is read."""

    handle: Annotated[str, Field(min_length=1, max_length=EGRESS_URL_CHARACTERS)] = Field(
        description="Where the host requests it: a URL with the origin of the channel's `url`."
    )
    mime_type: Annotated[str, Field(min_length=1, max_length=FILE_NAME_CHARACTERS)]
    name: Annotated[str, Field(min_length=1, max_length=FILE_NAME_CHARACTERS)] | None = None
    size_bytes: Annotated[Int, Field(ge=0)] | None = None


def check_handles(handles: Sequence[FileHandle], channel: SavedChannel | None) -> None:
    """A handle leads to the program behind the channel, and nowhere else."""
    own = None if channel is None or channel.url is None else Destination.of(channel.url).origin
    for number, file in enumerate(handles):
        try:
            origin = Destination.of(file.handle).origin
        except ValueError:
            origin = None
        if own is None or origin != own:
            raise InvalidRequest(
                f"files.{number}.handle: is not a URL of the channel",
                reason="file_handle",
                hint="use a URL with the same origin as the url of the channel",
                field=f"files.{number}.handle",
            )


def lazy_file(handle: FileHandle, event: NewEvent, by: str) -> MessageFile:
    return MessageFile.behind(
        event.scope,
        by,
        handle=handle.handle,
        name=handle.name,
        mime_type=handle.mime_type,
        size_bytes=handle.size_bytes,
        event="\n".join(event.key),
    )
