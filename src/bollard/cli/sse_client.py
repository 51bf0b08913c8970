"""Cuts a body into server-sent events. Pure: bytes in, events out; where they come from is `http_client`'s business."""

from dataclasses import dataclass

__all__ = ["EventParser", "ServerEvent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One event. `id` is what this event carried itself, not what an earlier one did."""

    type: str
    data: str
    id: str | None


class EventParser:
    """Keeps what is not a whole event yet. Lines end with LF or CRLF."""

    def __init__(self) -> None:
        self._rest = b""
        self._type = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """The events that this piece completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found: list[ServerEvent] = []
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if line:
                self._field(line)
            elif self._data:
                found.append(ServerEvent(type=self._type or "message", data="\n".join(self._data), id=self._id))
                self._clear()
            else:
                self._clear()
        return found

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._type = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case _:
                pass  # a comment, or a field of a newer host

    def _clear(self) -> None:
        self._type, self._data, self._id = "", [], None
