"""The OpenAPI document: complete, valid, the same as the file, and every example works against a host."""

import contextlib
import hashlib
import hmac
import http.client
import io
import json
import re
import textwrap
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tests.tables import for_each

from bollard.host import errors as host_errors
from bollard.host.api import operations
from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.errors import HostError
from bollard.host.http import errors as http_errors
from bollard.host.http.answers import STATUS
from bollard.host.http.auth.callers import COOKIE, SECURE_COOKIE
from bollard.host.http.auth.channel_signatures import TARGET_SIGNATURE
from bollard.host.http.idempotency import KEY_CHARACTERS
from bollard.host.http.openapi.answers import ERROR, ERROR_WORDS, errors_of
from bollard.host.http.openapi.document import PATH_PARTS, described, parts_of
from bollard.host.http.operations import Operation
from bollard.host.http.queries import TICKET
from bollard.host.http.resources.event_stream import EVENT_EXAMPLE
from bollard.host.settings import Settings
from bollard.protocol.export import render
from bollard.trust import enrol_proof
from bollard.wire import encode

ROOT = Path(__file__).parents[3]
ALL = {each.name: each for each in operations()}
DOCUMENT = json.loads(render(described(operations())))
ITEMS = {item["operationId"]: item for methods in DOCUMENT["paths"].values() for item in methods.values()}
SIGNED = {"cursor", "consent"}
"""Parameters that only an answer can give: no example of one could be true."""


def resolved(thing: Any) -> Any:
    """The target of a reference of the document."""
    while isinstance(thing, dict) and "$ref" in thing:
        found: Any = DOCUMENT
        for part in thing["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        thing = found
    return thing


def problems(schema: Any, value: Any) -> list[str]:
    whole = {**schema, "components": DOCUMENT["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(value)]


def media_of(item: Any) -> Iterator[tuple[str, str, Any]]:
    """Place, media type, and description: of the body and of every answer."""
    for media, said in item.get("requestBody", {}).get("content", {}).items():
        yield "body", media, said
    for status, answer in item["responses"].items():
        for media, said in resolved(answer).get("content", {}).items():
            yield status, media, said


# --- the document ---


def test_the_document_is_openapi_3_1() -> None:
    meta = validator_for(OPENAPI_31)(OPENAPI_31)
    assert [error.message for error in meta.iter_errors(DOCUMENT)] == []


def test_every_schema_of_the_document_is_json_schema() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert re.fullmatch(r"[A-Za-z0-9]+", name), name
    for item in ITEMS.values():
        for _, _, said in media_of(item):
            Draft202012Validator.check_schema(said["schema"])
        for parameter in map(resolved, item.get("parameters", [])):
            Draft202012Validator.check_schema(parameter["schema"])


def test_the_stored_document_matches_the_code() -> None:
    kept = (ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8")
    assert kept == render(described(operations())), "run scripts/describe"


def test_every_reference_has_a_target_and_every_component_is_used() -> None:
    text = json.dumps(DOCUMENT)
    used = set(re.findall(r'"\$ref": "#/components/([^"]+)"', text))
    there = {f"{kind}/{name}" for kind, things in DOCUMENT["components"].items() for name in things}
    assert used <= there
    assert there - used == {f"securitySchemes/{name}" for name in DOCUMENT["components"]["securitySchemes"]}


def test_the_tags_are_those_of_the_operations() -> None:
    assert {each.tag for each in ALL.values()} == {tag["name"] for tag in DOCUMENT["tags"]}


def test_the_fixed_parts_have_the_values_of_the_code() -> None:
    parameters, schemes = DOCUMENT["components"]["parameters"], DOCUMENT["components"]["securitySchemes"]
    assert parameters["Workspace"]["schema"] == PATH_PARTS["workspace_id"][1]
    assert parameters["IdempotencyKey"]["schema"]["maxLength"] == KEY_CHARACTERS
    names = [schemes[scheme]["name"] for scheme in ("session", "secureSession", "ticket")]
    assert names == [COOKIE.format(port=Settings().port), SECURE_COOKIE, TICKET]


@for_each("name", ALL)
def test_every_operation_is_fully_described(name: str) -> None:
    operation, item = ALL[name], ITEMS[name]
    assert item["summary"].endswith(".")
    assert item["description"].endswith(".")
    assert bool(item["security"]) != operation.open
    assert {str(STATUS[code]) for code in errors_of(operation)} <= item["responses"].keys()
    for where, media, said in media_of(item):
        assert "example" in said or "examples" in said or media == "application/zip", (where, media)
    for parameter in map(resolved, item.get("parameters", [])):
        assert parameter["description"].endswith("."), parameter["name"]
        assert "example" in parameter or parameter["name"] in SIGNED, parameter["name"]


@for_each("name", ALL)
def test_every_example_fits_its_schema(name: str) -> None:
    for where, media, said in media_of(ITEMS[name]):
        if media.endswith("json"):
            examples = [said["example"]] if "example" in said else [each["value"] for each in said["examples"].values()]
            for example in examples:
                assert problems(said["schema"], example) == [], (where, media)
    for parameter in map(resolved, ITEMS[name].get("parameters", [])):
        if "example" in parameter:
            assert problems(parameter["schema"], parameter["example"]) == [], parameter["name"]


def test_every_link_names_an_operation_with_that_parameter() -> None:
    for item in ITEMS.values():
        for answer in map(resolved, item["responses"].values()):
            for link in answer.get("links", {}).values():
                assert link["parameters"].keys() == set(parts_of(ALL[link["operationId"]].path))


def test_every_path_parameter_is_declared_and_no_other() -> None:
    assert {part for each in ALL.values() for part in parts_of(each.path)} == set(PATH_PARTS)


# --- errors ---


def test_every_code_has_a_text_and_its_example_is_an_error() -> None:
    assert ERROR_WORDS.keys() == STATUS.keys()
    for code, words in ERROR_WORDS.items():
        assert problems(ERROR, words.example(code)) == []
        assert words.summary.endswith(".")


def test_a_code_is_retryable_if_its_error_is() -> None:
    named = (*vars(host_errors).values(), *vars(http_errors).values())
    kinds = [kind for kind in named if isinstance(kind, type) and issubclass(kind, HostError)]
    first = {kind.code: kind.retryable for kind in reversed(kinds)}
    for code, words in ERROR_WORDS.items():
        if code in first:
            assert words.retryable == first[code], code


# --- what a host says of it ---


def assert_declared(operation: Operation, answer: Any) -> None:
    """The answer is one that the document has: its status, its media type, its body, its headers."""
    said = resolved(ITEMS[operation.name]["responses"].get(str(answer.status), {}))
    assert said, f"{answer.status} is not declared: {answer.body!r}"
    for name in said.get("headers", {}):
        if name in ("ETag", "Allow"):
            assert name.lower() in answer.headers, name
    if "content" not in said:
        assert answer.body == b""
        return
    media = answer.headers["content-type"].partition(";")[0]
    assert media in said["content"] or "application/octet-stream" in said["content"], media
    if media == "application/json":
        assert problems(said["content"][media]["schema"], answer.json) == []


KEEPER = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Keeper", permissions={"artifacts": ["write"]})
    async def keeper(ctx: RunContext):
        yield ctx.artifact("file", content=b"of the first workspace", name="note.txt", mime_type="text/plain")
        yield ctx.completed("kept")
"""
REFUSED = {
    "openRunSocket": "upgrade_required",
    "openRuntimeChannel": "upgrade_required",
    "installPlugin": "not_found",
    "inspectPlugin": "not_found",  # the package of the example is on no machine; archives are sent below
    "updatePlugin": "not_found",
    "rollbackPlugin": "not_found",  # there is no earlier version
    "consentRuntime": "conflict",  # the runtime is not connected
    "enrolRuntime": "unauthenticated",  # the code of the example was never issued; a valid one is used below
    "erasePerson": "conflict",  # a run of the person of the example is active; test_people erases
    "redeemLinkCode": "invalid_argument",  # the code of the example was never issued; test_chat_commands has valid ones
    "consentMcpTools": "conflict",  # the server of the example is switched off, and lists nothing
    "refreshMcpServer": "conflict",
    "beginMcpLogin": "conflict",  # and there is no login for it; test_logins has one
    "completeMcpLogin": "conflict",
    "logoutMcpServer": "conflict",
    "getApproval": "not_found",  # there is no approval; test_approvals has one
    "getApprovalContent": "not_found",
    "decideApproval": "not_found",
    "answerRunQuestion": "not_found",
    "getChannelArtifact": "not_found",  # the delivery of the example was never sent; test_channel_files does
    "serveRunOverMcp": "unauthenticated",  # no run of the example issued a token; test_mcp_gateway does
}
"""Examples that this host cannot say yes to."""
STAGES = ("PUT", "POST", "GET", "OPTIONS", "PATCH", "DELETE")
LAST = (
    "deleteKnowledgeBase",
    "deleteChannel",
    "unlinkActor",
    "deleteBinding",
    "deleteAgent",
    "endSession",
    "deleteUser",
    "drainHost",
)
"""Operations that run after all others, in this order: they remove resources that others need."""


def _turn(operation: Operation) -> tuple[int, int]:
    name = operation.name
    return LAST.index(name) + 1 if name in LAST else 0, STAGES.index(operation.method)


@dataclass
class World:
    """A host in which the examples are true, as far as ids can be chosen."""

    api: Any
    secret: str
    """Of the channel."""
    hook_secret: str
    """Of the webhook route."""
    session: str = "none"
    ids: dict[str, str] = field(default_factory=dict)
    own: dict[str, dict[str, str]] = field(default_factory=dict)
    """Ids for one operation alone: a run in the state that it needs."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path, workshop: Path) -> Settings:
    repository = tmp_path_factory.mktemp("plugins") / "keeper.py"
    repository.write_text(textwrap.dedent(KEEPER), encoding="utf-8")
    return Settings(
        data=tmp_path_factory.mktemp("data"),
        plugins=(plugin, workshop, repository),
        builtin_plugins=False,
        port=0,
        grace_s=0.5,
    )


def _example(name: str) -> Any:
    return ALL[name].body_example


def _saved(api: Any, name: str, path: str) -> Any:
    answer = api.put(path, _example(name))
    assert answer.status == 201, answer.body
    return answer.json


def _enrol(api: Any) -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    code = api.post("/api/v1/runtimes", {"name": "gpu-two"}).json["code"]
    proof = key.sign(enrol_proof(code, public)).hex()
    body = {"code": code, "public_key": public.hex(), "proof": proof}
    answer = api.post("/api/v1/runtime/enrolment", body, token=None)
    assert answer.status == 201, answer.body


def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as files:
        files.writestr(
            "manifest.yaml",
            textwrap.dedent("""
                apiVersion: bollard/v1
                kind: Plugin
                metadata: {author: acme, name: starling, version: 1.0.0, label: {en_US: Starling}}
                spec:
                  runners:
                    - {name: default, label: {en_US: Parrot}, permissions: {artifacts: [write]}, entry: "runner:keeper"}
            """),
        )
        files.writestr("runner.py", textwrap.dedent(KEEPER))
    return made.getvalue()


def _install(api: Any) -> None:
    """The plugin of the examples, with the consent that the first try demands."""
    asked = api.post("/api/v1/plugins", archive(), content_type="application/zip")
    consent = asked.error["details"]["consent"]
    answer = api.post(f"/api/v1/plugins?consent={consent}", archive(), content_type="application/zip")
    assert_declared(ALL["installPlugin"], answer)
    assert answer.status == 201, answer.body


def _upload(api: Any, content: bytes, size: int | None = None) -> dict[str, str]:
    """An upload with this content, of this size in the end."""
    upload_id = api.post("/api/v1/uploads", {**_example("beginUpload"), "size_bytes": size or len(content)}).json[
        "upload_id"
    ]
    assert api.send("PATCH", f"/api/v1/uploads/{upload_id}", content, upload_offset="0").status == 200
    return {"upload_id": upload_id}


def _signed_target(secret: str, method: str, path: str) -> dict[str, str]:
    signed = sign(secret_bytes(secret), "msg_2", round(time.time()), f"{method} {path}".encode())
    return {name.replace("-", "_"): value for name, value in signed.items()}


def _channel_upload(api: Any, secret: str, name: str, content: bytes = b"") -> dict[str, str]:
    """An upload of the channel, with this content or with none yet."""
    whole = str(_example("addChannelArtifact")).encode()
    facts = {
        "name": name,
        "conversation": "support-7",
        "size_bytes": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
    }
    path = f"/api/v1/channels/room/uploads?{urlencode(facts)}"
    begun = api.send("POST", path, None, token=None, **_signed_target(secret, "POST", path))
    assert begun.status == 201, begun.body
    path = f"/api/v1/channels/room/uploads/{begun.json['upload_id']}?offset=0"
    sent = api.send("PATCH", path, content, token=None, **_signed_target(secret, "PATCH", path))
    assert sent.status == 200, sent.body
    return {"upload_id": begun.json["upload_id"]}


def _active(api: Any, agent: str, text: str, **more: Any) -> dict[str, str]:
    created = api.tell(agent, text, **more)
    assert created.status == 202, created.body
    stream = api.stream(created.json["run_id"])
    stream.until("message.delta")
    stream.close()
    return {"run_id": created.json["run_id"]}


@pytest.fixture(scope="module")
def world(api: Any) -> World:
    api.until_health(lambda health: {plugin["status"] for plugin in health["plugins"].values()} == {"ready"})
    _saved(api, "saveAgent", "/api/v1/agents/polly")
    _saved(api, "saveBinding", "/api/v1/bindings/builds")
    _saved(api, "saveBot", "/api/v1/bots/polly")
    secret = _saved(api, "saveChannel", "/api/v1/channels/room")["secret"]
    hook_secret = _saved(api, "saveHook", "/api/v1/hooks/github")["secret"]
    _saved(api, "saveSubscription", "/api/v1/subscriptions/alerts")
    _saved(api, "saveUser", "/api/v1/users/ann")
    _saved(api, "saveWorkspace", "/api/v1/workspaces/north")
    _enrol(api)
    world = World(api, secret, hook_secret)
    told = api.tell("keeper", "Hello", conversation="support-7")
    ended = api.read(told.json["run_id"])
    (made,) = [each.data["data"]["artifact_id"] for each in ended if each.type == "artifact.created"]
    world.ids = {
        **{name: example for name, (_, _, example) in PATH_PARTS.items()},
        "run_id": told.json["run_id"],
        "event_id": told.json["event_id"],
        "artifact_id": made,
        **_upload(api, b"", 12),
        "file_id": api.post("/api/v1/files?name=prices.csv", b"rope,12").json["file_id"],
        "link_id": api.post("/api/v1/actors", _example("linkActor")).json["link_id"],
        "key_id": api.post("/api/v1/keys", _example("makeKey")).json["key_id"],
        "runtime_id": "gpu-two",  # that of the example is yet to be invited
        "name": "starling",  # the name of the example is that of another plugin here
    }
    _install(api)
    api.save_agent("historian", "workshop/reader", access={"permissions": {"history": ["page"]}})
    outside = [api.post("/api/v1/runs", {"agent": "parrot", "execution": "external"}).json["run_id"] for _ in range(3)]
    steady = _active(api, "workshop.steady", "begin", conversation="steered", actor={"type": "user", "id": "ann"})
    api.ended(api.tell("parrot", "bye", conversation="over").json["run_id"])
    world.own = {
        "deleteConversation": {"conversation_id": "over"},
        "cancelRun": _active(api, "parrot", "wait"),
        "steerRun": steady,
        "revokeRunGrant": _active(api, "historian", "read", conversation="read"),
        "appendRunResults": {"run_id": outside[0]},
        "finalizeRun": {"run_id": outside[1]},
        "issueRunMcpToken": {"run_id": outside[2]},
        "appendUpload": _upload(api, b"", 100),
        "finishUpload": _upload(api, str(_example("addArtifact")).encode()),
        "getChannelUpload": _channel_upload(api, secret, "a"),
        "appendChannelUpload": _channel_upload(api, secret, "b"),
        "finishChannelUpload": _channel_upload(api, secret, "c", str(_example("addChannelArtifact")).encode()),
        "deleteChannelUpload": _channel_upload(api, secret, "d"),
        "streamPluginLogs": {"author": "local", "name": "parrot"},  # one that no example takes away
    }
    return world


def _session(world: World) -> str:
    """The token of a session of the user of the examples. A new password, as one example has it, ends sessions."""
    if world.api.get("/api/v1/session", token=world.session).status != 200:
        answer = world.api.post("/api/v1/session", _example("beginSession"), token=None)
        assert answer.status == 201, answer.body
        world.session = answer.json["token"]
    return world.session


def _ticket(world: World) -> str:
    return world.api.post("/api/v1/session/tickets", token=_session(world)).json["ticket"]


def _request(world: World, operation: Operation) -> tuple[str, Any, str | None, dict[str, str]]:
    """Path, body, token and headers of the example."""
    path = operation.path
    for name, value in {**world.ids, **world.own.get(operation.name, {})}.items():
        path = path.replace("{" + name + "}", value)
    body = None if operation.body is None else encode(operation.body_example)
    token = None if operation.open else world.api.token
    if operation.tag == "session" and not operation.open and operation.name != "listSessions":
        token = _session(world)
    headers = {} if body is None else {"content_type": operation.body_media[0]}
    if operation.name == "beginSessionWithTicket":
        body = encode({"ticket": _ticket(world), "cookie": True})
    if operation.name == "endOtherSession":
        begun = world.api.post("/api/v1/session/ticket", {"ticket": _ticket(world)}, token=None).json
        path = f"/api/v1/sessions/{begun['session_id']}"
    if operation.name == "postChannelEvent":
        signed = sign(secret_bytes(world.secret), "msg_1", round(time.time()), body or b"")
        headers |= {name.replace("-", "_"): value for name, value in signed.items()}
    if operation.name == "receiveHook":
        digest = hmac.new(world.hook_secret.encode(), body or b"", "sha256").hexdigest()
        headers |= {"x_hub_signature_256": f"sha256={digest}"}
    if needed := [f"{field.name}={field.example}" for field in operation.query if field.required]:
        path += f"?{'&'.join(needed)}"
    if operation.name == "addChannelArtifact":
        body = str(operation.body_example).encode()
    if TARGET_SIGNATURE[-1] in operation.headers:
        headers |= _signed_target(world.secret, operation.method, path)
    if operation.name == "appendUpload":
        headers["upload_offset"] = "0"
    if operation.name == "developPlugin":
        body = archive()
    return path, body, token, headers


ENDLESS = frozenset({"streamPluginLogs", "streamEvents", "streamChanges"})


@for_each("name", sorted((name for name in ALL if name not in ENDLESS), key=lambda n: _turn(ALL[n])))
def test_the_example_of_every_operation_is_accurate(world: World, name: str) -> None:
    operation = ALL[name]
    path, body, token, headers = _request(world, operation)
    answer = world.api.send(operation.method, path, body, token=token, **headers)
    assert_declared(operation, answer)
    if name in REFUSED:
        assert answer.error["code"] == REFUSED[name], answer.body
    else:
        assert answer.status in operation.answers, answer.body


@for_each("name", [name for name, each in ALL.items() if each.method == "GET" and each.query])
def test_the_examples_of_parameters_are_accepted(world: World, name: str) -> None:
    operation = ALL[name]
    if name in ENDLESS:
        return
    path, _, token, _ = _request(world, operation)
    query = [resolved(each) for each in ITEMS[name]["parameters"]]
    said = [f"{each['name']}={each['example']}" for each in query if each["in"] == "query" and "example" in each]
    answer = world.api.get(f"{path}?{'&'.join(said)}", token=token)
    assert_declared(operation, answer)
    assert answer.status != 400, answer.body


def test_the_example_of_an_endless_stream_is_accurate(world: World) -> None:
    path, _, token, _ = _request(world, ALL["streamPluginLogs"])
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", world.api.port, timeout=120)) as connection:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        with contextlib.closing(connection.getresponse()) as response:
            said = ITEMS["streamPluginLogs"]["responses"]["200"]["content"]["text/event-stream"]
            lines = [response.readline().decode().partition(": ") for _ in range(3)]
            assert response.headers["content-type"].startswith("text/event-stream")
    event = {name: value.rstrip("\n") for name, _, value in lines}
    assert problems(said["schema"], event) == []
    assert json.loads(event["data"])["number"] == 1


def test_the_example_of_the_stream_of_events_is_true(world: World) -> None:
    with contextlib.closing(world.api.events("?types=message.received", last="1.0")) as stream:
        event = next(each for each in stream if each.id is not None)  # a gap has none
    said = ITEMS["streamEvents"]["responses"]["200"]["content"]["text/event-stream"]
    assert problems(said["schema"], {"id": event.id, "event": event.type, "data": json.dumps(event.data)}) == []
    assert event.data.keys() == EVENT_EXAMPLE.keys()


def test_the_document_of_a_host_has_its_version(world: World) -> None:
    answer = world.api.get("/api/v1/openapi.json")
    assert answer.json == DOCUMENT
    again = world.api.get("/api/v1/openapi.json", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")
