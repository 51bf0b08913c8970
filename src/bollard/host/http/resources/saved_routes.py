"""The operations of a saved resource: list, get, save and delete. One declaration describes all four.

CONTRIBUTING.md shows how to add a resource.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import COMPONENT, SchemaGenerator, named
from bollard.host.http.operations import PAGE, Answer, Operation, QueryField, leads_to
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import AnswerBody, answer, answer_body, declared_operations
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.identity.caller import Caller, Right
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved
from bollard.host.secrets.secret_repository import HoldsSecret, SecretRepository
from bollard.protocol import JsonObject, JsonValue, Shape, Strict

Verb = Literal["list", "get", "save", "delete"]
T = TypeVar("T")
S = TypeVar("S", bound=HoldsSecret)
REVISION: Final = QueryField(name="revision", summary="The revision to delete.", kind="number", example=1)


class SavedResource(msgspec.Struct, frozen=True, kw_only=True):
    """How the API describes one kind of saved resource."""

    kind: ResourceKind
    path: str
    """The path of the list; a resource is one level below."""
    id: str
    """The field with the id, such as `channel_id`."""
    names: tuple[str, str]
    """In the names of operations: `Channel` in `getChannel`, `Channels` in `listChannels`."""
    right: str
    """`channels` for the rights `channels.read` and `channels.write`."""
    tag: str = ""
    """Without it the right is the tag."""
    body: type[Strict]
    body_example: JsonObject
    shown: AnswerBody
    """One resource in an answer."""
    listed: AnswerBody | None = None
    """One resource in a list, where a list shows less."""
    created: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """Fields of the example that differ in the answer to a creation."""
    deleted: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """More fields of the answer to a deletion."""
    summaries: Mapping[Verb, str] = msgspec.field(default_factory=dict[Verb, str])
    descriptions: Mapping[Verb, str] = msgspec.field(default_factory=dict[Verb, str])
    get_errors: Sequence[str] = ("not_found",)
    links: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """More operations that the answer to a creation links to."""
    save_name: str = ""

    def operations(
        self, routes: "type[ResourceRoutes[Any]]", verbs: Sequence[Verb] = ("list", "get", "save", "delete")
    ) -> list[Operation]:
        makers = {"list": self._list, "get": self._get, "save": self._save, "delete": self._delete}
        return [makers[verb](routes) for verb in verbs]

    @property
    def answer(self) -> Answer:
        """The answer with one resource."""
        return self.shown.answer(f"The {self.kind.noun}.")

    def _operation(self, verb: Verb, **more: Any) -> Operation:
        read_only = verb in ("list", "get")
        return Operation(
            tag=self.tag or self.right,
            right=cast("Right", f"{self.right}.{'read' if read_only else 'write'}"),
            description=self.descriptions.get(verb, ""),
            **more,
        )

    def _list(self, routes: "type[ResourceRoutes[Any]]") -> Operation:
        return self._operation(
            "list",
            method="GET",
            path=self.path,
            handler=routes.list,
            name=f"list{self.names[1]}",
            summary=self.summaries.get("list", f"List the {self.kind.noun}s of the workspace."),
            query=PAGE,
            answers={200: (self.listed or self.shown).page(f"{self.kind.noun}s")},
        )

    def _get(self, routes: "type[ResourceRoutes[Any]]") -> Operation:
        return self._operation(
            "get",
            method="GET",
            path=f"{self.path}/{{{self.id}}}",
            handler=routes.get,
            name=f"get{self.names[0]}",
            summary=self.summaries.get("get", f"Show one {self.kind.noun}."),
            editable=True,
            answers={200: self.answer},
            errors=self.get_errors,
        )

    def _save(self, routes: "type[ResourceRoutes[Any]]") -> Operation:
        noun = self.kind.noun
        links = {
            f"get{self.names[0]}": f"Read the {noun} again.",
            **self.links,
            f"delete{self.names[0]}": f"Delete the {noun}.",
        }
        return self._operation(
            "save",
            method="PUT",
            path=f"{self.path}/{{{self.id}}}",
            handler=cast("Any", routes).put,
            name=self.save_name or f"save{self.names[0]}",
            summary=self.summaries.get("save", f"Save a {noun}, or a new revision of it."),
            body=self.body,
            body_example=self.body_example,
            editable=True,
            answers={
                200: self.answer,
                201: Answer(
                    summary=f"The {noun} is new.",
                    links=leads_to(self.id, **links),
                    schema=self.shown.schema,
                    example={**self.shown.example, **self.created},
                ),
            },
            errors=("conflict", "precondition_failed"),
        )

    def _delete(self, routes: "type[ResourceRoutes[Any]]") -> Operation:
        deleted = {self.id: self.shown.example[self.id], "deleted": True, **self.deleted}
        return self._operation(
            "delete",
            method="DELETE",
            path=f"{self.path}/{{{self.id}}}",
            handler=routes.delete,
            name=f"delete{self.names[0]}",
            summary=self.summaries.get("delete", f"Delete a {self.kind.noun}."),
            query=(REVISION,),
            editable=True,
            answers={200: answer(f"The {self.kind.noun} is deleted.", **deleted)},
            errors=("not_found", "conflict", "precondition_failed"),
        )


class ResourceRoutes(Generic[T]):
    """Lists, shows and deletes resources of one kind. A subclass has the declaration, and overrides the rest."""

    resource: ClassVar[SavedResource]
    verbs: ClassVar[Sequence[Verb]] = ("list", "get", "save", "delete")

    def __init__(self, repository: Repository[T], pages: Pages) -> None:
        self._repository = repository
        self._pages = pages

    @classmethod
    def operations(cls) -> list[Operation]:
        """The derived operations, then those that are declared at a handler."""
        tag = cls.resource.tag or cls.resource.right
        return [*cls.resource.operations(cls, cls.verbs), *declared_operations(cls, tag)]

    async def list(self, request: Request) -> Response:
        purpose = f"{self.resource.path.rpartition('/')[2]}.list"
        return self._pages.of_all(
            request, purpose, self.all(caller_of(request)), lambda saved: saved.id, self.show_item
        )

    async def get(self, request: Request) -> Response:
        saved = self.find(caller_of(request), self._id(request))
        if saved is None:
            raise self.resource.kind.missing()
        return self.response(request, saved, await self.show(saved))

    async def delete(self, request: Request) -> Response:
        caller, resource_id = caller_of(request), self._id(request)
        before = self.find(caller, resource_id)
        edited = edited_revision(request, None if before is None else before.revision)
        with held_to_match(request):
            more = await self.remove(caller, resource_id, edited)
        return JsonAnswer({self.resource.id: resource_id, "deleted": True, **more})

    def _id(self, request: Request) -> str:
        return request.path_params[self.resource.id]

    # --- hooks of a resource ---

    def all(self, caller: Caller) -> Sequence[Saved[T]]:
        """The resources that the caller sees, by id."""
        return self._repository.all(caller.workspace)

    def find(self, caller: Caller, resource_id: str) -> Saved[T] | None:
        return self._repository.find(caller.workspace, resource_id)

    async def show(self, saved: Saved[T]) -> JsonObject:
        """The resource in an answer."""
        return self.show_item(saved)

    def show_item(self, saved: Saved[T]) -> JsonObject:
        """The resource in a list."""
        return {**cast("Any", saved.value).to_wire(), "revision": saved.revision}

    def response(self, request: Request, saved: Saved[T], body: JsonObject) -> Response:
        return revised(request, body, saved.revision)

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        """Delete the resource. Returns more fields of the answer."""
        await self._repository.delete(caller.workspace, resource_id, by=caller.name, edited=edited)
        return {}


class SavedRoutes(ResourceRoutes[T], ABC):
    """Also saves the resources."""

    async def put(self, request: Request) -> Response:
        caller, resource_id = caller_of(request), self._id(request)
        before = self.find(caller, resource_id)
        body = named_by_path(await read_body(request), self.resource.id, resource_id)
        edited = edited_revision(request, None if before is None else before.revision, body)
        if edited is None:
            edited = _revision_in(body)
        with held_to_match(request):
            saved, more = await self.save(caller, resource_id, body, edited)
        status = 201 if self.is_created(before, saved) else 200
        return revised(request, {**await self.show(saved), **more}, saved.revision, status_code=status)

    @abstractmethod
    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[T], JsonObject]:
        """Save the body. Also returns more fields of the answer."""

    def is_created(self, before: Saved[T] | None, saved: Saved[T]) -> bool:
        del before
        return saved.revision == 1


class SecretRoutes(SavedRoutes[S]):
    """Resources with an own secret: the answer that saves one shows a new secret, once."""

    def __init__(self, repository: SecretRepository[S], pages: Pages) -> None:
        super().__init__(repository, pages)
        self._save = repository.save

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[S], JsonObject]:
        saved, secret = await self._save(body, caller.workspace, resource_id, by=caller.name, edited=edited)
        return saved, {} if secret is None else {"secret": secret}


def named_by_path(body: JsonObject, field: str, name: str) -> JsonObject:
    """The body with the id of its path. Raises `InvalidRequest` for a body with another id."""
    if body.get(field, name) != name:
        raise InvalidRequest(
            f"{field} differs from the path",
            reason="id_differs_from_path",
            hint=f"leave out {field}, or make them equal",
            field=field,
        )
    return {**body, field: name}


def _revision_in(body: JsonObject) -> int | None:
    """The revision of a body. The validation of the body refuses a value of another type."""
    revision = body.get("revision")
    return revision if isinstance(revision, int) and not isinstance(revision, bool) and revision >= 0 else None


# --- schemas of answers ---


def shown_as(
    name: str, model: type[Shape], example: JsonObject, optional: JsonObject | None = None, /, **stated: JsonObject
) -> AnswerBody:
    """The body of an answer that shows a model: its fields, the other fields of the example, and the revision. The
    model completes the example. `stated` and `optional` are schemas, as in `answer_body`."""
    schema = model.model_json_schema(ref_template=COMPONENT, schema_generator=SchemaGenerator)
    fields = {field: each for field, each in schema["properties"].items() if not model.model_fields[field].exclude}
    absent = {field for field, each in fields.items() if each.get("default", ...) is None}
    others = {field: value for field, value in example.items() if field not in fields}
    more = answer_body("", {**others, "revision": 1}, optional, **stated).schema
    required = {*(fields.keys() - absent), *cast("list[str]", more["required"])}
    properties = {field: _shown(each) for field, each in fields.items()} | cast("JsonObject", more["properties"])
    whole: JsonObject = {
        "type": "object",
        "properties": {field: properties[field] for field in sorted(properties)},
        "required": [*sorted(required)],
        "additionalProperties": False,
    }
    given = model.from_wire({field: value for field, value in example.items() if field in fields})
    return AnswerBody(named(name, whole), {**given.to_wire(), **others, "revision": 1})


def _shown(field: Mapping[str, Any]) -> JsonObject:
    """The schema of a field in an answer, which has no default. A field that may be absent is never null."""
    choices = [each for each in field.get("anyOf", []) if each.get("type") != "null"]
    others = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return {**others, **choices[0]} if len(choices) == 1 else {**others, "anyOf": choices} if choices else others
