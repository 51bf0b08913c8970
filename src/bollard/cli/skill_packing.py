"""Reads the folder of a skill, as it is sent to a host. Links are not followed, and what is hidden is left out."""

import base64
from pathlib import Path

from bollard.cli.errors import UsageProblem
from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.host.errors import HostError
from bollard.host.limits import SKILL_BYTES, SKILL_FILES
from bollard.host.skills.skill_files import read_content
from bollard.protocol import JsonObject, JsonValue

__all__ = ["pack_skill"]


def pack_skill(folder: Path) -> tuple[str, JsonObject]:
    """Its name, and the body of the request that saves it; judged as the host will judge it. Raises `UsageProblem`."""
    if not folder.is_dir():
        raise UsageProblem("error.no_path", "hint.skill_folder", path=folder)
    place = folder.resolve()
    try:
        files = _read(place)
        content = read_content(files, place.name)
    except (HostError, ConfineError) as error:
        raise UsageProblem("error.skill", "hint.host", path=folder, detail=error.message, advice=error.hint) from error
    except OSError as error:
        raise UsageProblem("error.plugin_read", "hint.skill_folder", path=folder, detail=error.strerror) from error
    sent: list[JsonValue] = [_sent(path, data) for path, data in sorted(files.items())]
    return content.text.name, {"files": sent}


def _read(place: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with Folder(place) as folder:
        for entry in folder.walk(".", limit=4 * SKILL_FILES):
            hidden = any(part.startswith(".") for part in entry.path.split("/"))
            if entry.kind == "file" and not hidden:
                files[entry.path] = folder.read(entry.path, limit=SKILL_BYTES)
    return files


def _sent(path: str, data: bytes) -> JsonObject:
    try:
        return {"path": path, "text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path": path, "content_base64": base64.b64encode(data).decode("ascii")}
