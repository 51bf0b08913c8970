"""`/skills`: the skills of a workspace, as people add and read them. Those of plugins come and go with their plugin."""

import base64
import binascii
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, TIME, array_of, fields, maybe, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILL_PATH_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.host.skills.catalogue import SkillCatalogue
from bollard.host.skills.repository import SkillRepository
from bollard.host.skills.skill import SKILL_FILE, KeptSkill, KeptVersion, OfferedSkill, Unusable, read_skill_text
from bollard.protocol import Int, JsonObject, JsonValue, Strict

_LIST: Final = "skills.list"
_DIGEST: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_FILE: Final = fields(path=TEXT, size=NUMBER, sha256=TEXT)
_LISTED: Final = named(
    "ListedSkill",
    fields(skill_id=TEXT, description=TEXT, source=TEXT, version=maybe(TEXT), usable=FLAG, problem=maybe(TEXT)),
)
_VERSION: Final = fields(version=TEXT, by=TEXT, created_at=TIME, authored=FLAG)
_SKILL: Final = named(
    "Skill",
    fields(
        skill_id=TEXT,
        description=TEXT,
        version=TEXT,
        authored=FLAG,
        requested_tools=array_of(TEXT),
        files=array_of(_FILE),
        text=TEXT,
        versions=array_of(_VERSION),
        revision=NUMBER,
    ),
)
_LISTED_EXAMPLE: Final[JsonObject] = {
    "skill_id": "report-writer",
    "description": "Writes a weekly report. Use it when somebody asks for one.",
    "source": "workspace",
    "version": _DIGEST,
    "usable": True,
    "problem": None,
}
_EXAMPLE: Final[JsonObject] = {
    "skill_id": "report-writer",
    "description": "Writes a weekly report. Use it when somebody asks for one.",
    "version": _DIGEST,
    "authored": False,
    "requested_tools": ["http_fetch"],
    "files": [{"path": "SKILL.md", "size": 120, "sha256": _DIGEST}],
    "text": "Begin with what changed.",
    "versions": [{"version": _DIGEST, "by": "user:ann", "created_at": 1794735484.0, "authored": False}],
    "revision": 1,
}
_TEXT: Final = "---\nname: report-writer\ndescription: Writes a weekly report.\n---\nBegin with what changed.\n"


class SkillFile(Strict):
    """One file of a skill: as text, or as base64."""

    path: Annotated[str, Field(min_length=1, max_length=SKILL_PATH_CHARACTERS)]
    text: Annotated[str, Field(max_length=SKILL_BYTES)] | None = None
    content_base64: Annotated[str, Field(max_length=SKILL_BYTES * 2)] | None = None


class SavedSkill(Strict):
    """`PUT /api/v1/skills/{id}`."""

    skill_id: Annotated[str, Field(min_length=1, max_length=64)]
    files: Annotated[tuple[SkillFile, ...], Field(min_length=1, max_length=SKILL_FILES)]
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


class Skills:
    """What agents can be taught."""

    def __init__(self, book: SkillRepository, catalogue: SkillCatalogue, pages: Pages) -> None:
        self._book = book
        self._catalogue = catalogue
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        skill = "/api/v1/skills/{skill_id}"
        saved = Answer(summary="The skill as it is now.", schema=_SKILL, example=_EXAMPLE)
        made = Answer(
            summary="The skill is new.",
            links=leads_to("skill_id", getSkill="Read it again.", deleteSkill="Remove it."),
            schema=_SKILL,
            example=_EXAMPLE,
        )
        return [
            Operation(
                method="GET",
                path="/api/v1/skills",
                handler=Skills.list,
                name="listSkills",
                tag="skills",
                summary="The skills of the workspace, and those that its plugins bring.",
                right="skills.read",
                query=PAGE,
                answers={
                    200: Answer(
                        summary="A page of skills.", schema=page_of(_LISTED), example=page_example(_LISTED_EXAMPLE)
                    )
                },
            ),
            Operation(
                method="GET",
                path=skill,
                handler=Skills.get,
                name="getSkill",
                tag="skills",
                summary="One skill of the workspace: its text, its files, its versions.",
                right="skills.read",
                editable=True,
                answers={200: saved},
                errors=("not_found", "storage_unavailable"),
            ),
            Operation(
                method="PUT",
                path=skill,
                handler=Skills.put,
                name="saveSkill",
                tag="skills",
                summary="Save a skill, or a new version of one.",
                description="All its files at once, `SKILL.md` among them. The version is the digest of their content. "
                "Nobody gets the skill by that: an agent's policy names it.",
                right="skills.write",
                body=SavedSkill,
                body_example={"files": [{"path": "SKILL.md", "text": _TEXT}]},
                editable=True,
                answers={200: saved, 201: made},
                errors=("conflict", "precondition_failed"),
            ),
            Operation(
                method="DELETE",
                path=skill,
                handler=Skills.delete,
                name="deleteSkill",
                tag="skills",
                summary="Remove a skill, with every version of it.",
                right="skills.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="It is gone.",
                        schema=fields(skill_id=TEXT, deleted=FLAG),
                        example={"skill_id": "report-writer", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
        ]

    async def list(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        found = [*self._catalogue.all(workspace), *self._catalogue.unusable(workspace)]
        found.sort(key=_id)
        return self._pages.of_all(request, _LIST, found, _id, _listed)

    async def get(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        saved = self._book.get(workspace, request.path_params["skill_id"])
        return revised(request, await self._shown(saved), saved.revision)

    async def put(self, request: Request) -> Response:
        caller, skill_id = caller_of(request), request.path_params["skill_id"]
        body = named_by_path(await read_body(request), "skill_id", skill_id)
        now = (
            self._book.get(caller.workspace, skill_id).revision if self._book.has(caller.workspace, skill_id) else None
        )
        wanted = parsed(SavedSkill, body)
        edited = edited_revision(request, now, body)
        with held_to_match(request):
            saved = await self._book.save(
                caller.workspace,
                _files(wanted),
                by=caller.name,
                called=skill_id,
                edited=wanted.revision if edited is None else edited,
            )
        return revised(request, await self._shown(saved), saved.revision, status_code=201 if now is None else 200)

    async def delete(self, request: Request) -> Response:
        caller, skill_id = caller_of(request), request.path_params["skill_id"]
        now = (
            self._book.get(caller.workspace, skill_id).revision if self._book.has(caller.workspace, skill_id) else None
        )
        edited = edited_revision(request, now)
        with held_to_match(request):
            await self._book.remove(caller.workspace, skill_id, by=caller.name, edited=edited)
        return JsonAnswer({"skill_id": skill_id, "deleted": True})

    async def _shown(self, saved: Saved[KeptSkill]) -> JsonObject:
        now = saved.thing.current
        digest = next(each.sha256 for each in now.files if each.path == SKILL_FILE)
        text = read_skill_text(await self._book.read(saved.workspace, digest)).body
        files: list[JsonValue] = [each.to_wire() for each in now.files]
        versions: list[JsonValue] = [_version(each) for each in (now, *saved.thing.earlier)]
        return {
            "skill_id": saved.id,
            "description": now.description,
            "version": now.digest,
            "authored": now.authored,
            "requested_tools": [*now.wishes],
            "files": files,
            "text": text,
            "versions": versions,
            "revision": saved.revision,
        }


def _files(wanted: SavedSkill) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for each in wanted.files:
        if each.path in found:
            raise InvalidRequest(f"{each.path!a} is there twice", hint="send each file once", field="files")
        if (each.text is None) == (each.content_base64 is None):
            raise InvalidRequest(
                f"{each.path!a} needs text or content_base64", hint="send one of the two", field="files"
            )
        try:
            found[each.path] = (
                base64.b64decode(each.content_base64, validate=True)
                if each.content_base64 is not None
                else (each.text or "").encode()
            )
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest(f"{each.path!a} is no base64", hint="encode it again", field="files") from error
    return found


def _id(each: OfferedSkill | Unusable) -> str:
    return each.skill_id


def _listed(each: OfferedSkill | Unusable) -> JsonObject:
    if isinstance(each, Unusable):
        plugin = each.skill_id.rpartition("/")[0]
        return {
            "skill_id": each.skill_id,
            "description": "",
            "source": f"plugin:{plugin}",
            "version": None,
            "usable": False,
            "problem": each.reason,
        }
    return {
        "skill_id": each.skill_id,
        "description": each.description,
        "source": each.source,
        "version": each.digest,
        "usable": True,
        "problem": None,
    }


def _version(version: KeptVersion) -> JsonObject:
    return {
        "version": version.digest,
        "by": version.by,
        "created_at": version.at_ms / 1000,
        "authored": version.authored,
    }
