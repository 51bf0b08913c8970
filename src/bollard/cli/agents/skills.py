"""`bollard skills …`: adds folders with a `SKILL.md` to a workspace, lists, shows and removes them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable
from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.host.errors import HostError
from bollard.host.limits import SKILL_BYTES, SKILL_FILES
from bollard.host.skills.skill import read_content
from bollard.protocol import JsonObject, JsonValue

SKILLS: Final = Resource(path="/api/v1/skills", key="skill_id")
SkillName = Annotated[str, typer.Argument(metavar="SKILL", help="skills.name")]


def skill_lines(skill: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a skill."""
    yield text("skills.head", skill=printable(skill["skill_id"]), description=printable(skill["description"]))
    yield text("skills.version", version=skill["version"][:12], count=len(skill["versions"]))
    if skill["authored"]:
        yield text("skills.authored", by=printable(skill["versions"][0]["by"]))
    if skill["requested_tools"]:
        yield text("skills.wishes", tools=", ".join(map(printable, skill["requested_tools"])))
    for file in skill["files"]:
        yield text("skills.file", path=printable(file["path"]), size=file["size"])
    yield ""
    for line in str(skill["text"]).splitlines():
        yield printable(line)


def _about(skill: dict[str, Any], text: Text) -> str:
    if skill["usable"]:
        return skill["description"]
    reason = text.problem({"problem": skill["problem"], **skill.get("problem_details", {})})
    return text("skills.unusable", reason=reason)


app = CommandGroup("skills")
app.add_list(
    SKILLS,
    (
        Column("skill", "skill_id"),
        Column("source", "source"),
        Column("version", lambda skill, _: (skill["version"] or "")[:12]),
        Column("about", _about),
    ),
    none="skills.none",
)


@app.command("add")
def add(shell: HostShell, folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="skills.folder")]) -> int:
    name, body = pack_skill(folder)
    saved = shell.put(SKILLS.one(name), body)
    return shell.show(saved, _saved_lines(name, saved, shell.text))


def _saved_lines(name: str, saved: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("skills.saved", skill=name, version=saved["version"][:12], revision=saved["revision"])
    if saved["requested_tools"]:
        yield text("skills.wishes", tools=", ".join(saved["requested_tools"]))
    yield text("skills.next", skill=name)


app.add_show(SKILLS, ("skill", SkillName), skill_lines)
app.add_delete(SKILLS, ("skill", SkillName), "remove")


# --- the folder of a skill: links are not followed, hidden files are left out ---


def pack_skill(folder: Path) -> tuple[str, JsonObject]:
    """The name and the request body of a skill, validated like on the host. Raises `UsageProblem`."""
    if not folder.is_dir():
        raise UsageProblem("error.no_path", "hint.skill_folder", path=folder)
    place = folder.resolve()
    try:
        files = _read(place)
        content = read_content(files, place.name)
    except HostError as error:
        raise UsageProblem.of(error, "error.skill", path=folder) from error
    except ConfineError as error:
        raise UsageProblem("error.skill", "hint.host", path=folder, detail=error.message, advice=error.hint) from error
    except OSError as error:
        raise UsageProblem("error.plugin_read", "hint.skill_folder", path=folder, detail=error) from error
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
