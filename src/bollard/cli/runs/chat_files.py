"""Files of a chat: chosen by a person, and uploaded with the next message."""

import mimetypes
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlencode, urlsplit

from bollard.cli.client.host_client import HostClient
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import CHAT_FILES, FILE_BYTES
from bollard.protocol import JsonObject

_PATH_CHARACTERS: Final = 4096
_UNKNOWN: Final = "application/octet-stream"


def pasted_file(line: str) -> Path | None:
    """The file that a line names: an absolute path, one below the home folder, or a `file:` URL, as terminals and file
    managers paste it. `None` for any other line."""
    text = line.strip()
    if len(text) > _PATH_CHARACTERS or "\n" in text or "\0" in text:
        return None
    for quote in "'\"":
        text = text[1:-1] if len(text) > 1 and text.startswith(quote) and text.endswith(quote) else text
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    if not text.startswith(("/", "~/")):
        return None
    for name in (text, text.replace("\\ ", " ")):  # some terminals escape spaces
        try:
            path = Path(name).expanduser()
            if path.is_file():
                return path
        except (OSError, RuntimeError):  # a name that no file can have, or no home folder
            return None
    return None


def named_file(text: str) -> Path:
    """The file that a person names: as it is pasted, or relative to the working folder."""
    return pasted_file(text) or Path(text)


class ChatFiles:
    """The files that go with the next message."""

    def __init__(self, client: HostClient) -> None:
        self._client = client
        self.pending: list[Path] = []

    def add(self, path: Path) -> int:
        """Add a file; returns its size. Raises `UsageProblem`."""
        if len(self.pending) >= CHAT_FILES:
            raise UsageProblem("error.chat_files", "hint.chat_files", most=CHAT_FILES)
        size = _size(path)
        if not size:
            raise UsageProblem("error.chat_file_empty", "hint.file", path=path)
        self.pending.append(path)
        return size

    async def upload(self, conversation: str) -> list[JsonObject]:
        """Upload the files, each as an attachment. If one fails, all stay for the next message. Raises `CliError`."""
        attached: list[JsonObject] = []
        for path in self.pending:
            _size(path)  # it may have changed
            query = urlencode({"conversation": conversation, "name": path.name})
            kind = mimetypes.guess_type(path.name, strict=False)[0] or _UNKNOWN
            made = await self._client.upload("POST", f"/api/v1/artifacts?{query}", _content(path), kind)
            attached.append({name: made[name] for name in ("artifact_id", "artifact_type")})
        self.pending.clear()
        return attached

    async def listed(self, conversation: str) -> list[tuple[str, JsonObject]]:
        """Role and reference of the files in the newest messages of a conversation, oldest first."""
        query = urlencode({"limit": 50})
        page = await self._client.get(f"/api/v1/conversations/{conversation}/messages?{query}")
        items = cast("list[JsonObject]", page["items"])
        return [
            (str(item["role"]), ref)
            for item in reversed(items)
            for ref in cast("list[JsonObject]", item.get("artifact_refs") or [])
        ]


async def message_input(files: ChatFiles, conversation: str, text: str) -> JsonObject:
    """The input of a message with the waiting files. Raises `CliError`."""
    if not files.pending:
        return {"text": text}
    return {"text": text, "attachments": [*await files.upload(conversation)]}


def _size(path: Path) -> int:
    try:
        if not path.is_file():
            raise UsageProblem("error.chat_no_file", "hint.file", path=path)
        size = path.stat().st_size
    except OSError as error:
        raise UsageProblem("error.file", "hint.file", path=path, detail=error) from error
    if size > FILE_BYTES:
        raise UsageProblem("error.file_large", "hint.file_large", path=path, most=FILE_BYTES)
    return size


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem("error.file", "hint.file", path=path, detail=error) from error
