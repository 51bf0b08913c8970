"""Every operation against every unauthorised caller: of another workspace, of a lesser role, without a token. The
operations come from the table, so that a new route cannot be forgotten here."""

import contextlib
import http.client
import io
import re
import textwrap
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tables import for_each

from bollard.host.api import operations
from bollard.host.http.operations import Operation
from bollard.host.identity.caller import ROLES, rights_of
from bollard.host.settings import Settings
from bollard.trust.heads import enrol_proof
from bollard.wire import encode

OPERATIONS = {f"{each.method} {each.path}": each for each in operations()}
GUARDED = {name: each for name, each in OPERATIONS.items() if not each.open}
KEEPER = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Keeper", permissions={"artifacts": ["write"]})
    async def keeper(ctx: RunContext):
        yield ctx.artifact("file", content=b"of the first workspace", name="note.txt", mime_type="text/plain")
        yield ctx.completed("kept")
"""
ASKER = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Asker", permissions={"tools": ["call"]})
    async def asker(ctx: RunContext):
        yield ctx.completed(str(await ctx.api.tools.call("calculate", {"expression": ctx.input.text})))
"""
ABSENT = {
    "run_id": "run_absent",
    "event_id": "evt_absent",
    "agent_id": "absent-agent",
    "binding_id": "absent-binding",
    "bot_id": "absent-bot",
    "conversation_id": "absent-conversation",
    "artifact_id": "absent-artifact",
    "file_id": "absent-file",
    "upload_id": "0" * 32,
    "approval_id": "apr_absent",
    "question_id": "qst_absent",
    "number": "1",
    "channel_id": "absent-channel",
    "schedule_id": "absent-schedule",
    "hook_id": "absent-hook",
    "subscription_id": "absent-subscription",
    "author": "absent-author",
    "name": "absent-name",
    "user_id": "absent-user",
    "link_id": "0" * 32,
    "key_id": "0" * 16,
    "session_id": "0" * 16,
    "workspace_id": "absent-workspace",
    "runtime_id": "absent-runtime",
    "skill_id": "no-such-skill",
    "secret_name": "absent-secret",
    "server_id": "absent-server",
    "source": "bundled",
    "item_id": "absent-item",
    "kb_id": "absent-base",
    "model_id": "absent-model",
    "document_id": "absent-document",
}
"""One id for each thing that a path can name. A path with another needs a line here and in `Theirs`."""


@dataclass
class Theirs:
    """The resources of the first workspace, by the names of path parameters."""

    ids: dict[str, str] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    """The view of its own users."""


def filled(operation: Operation, ids: dict[str, str]) -> str:
    path = operation.path
    for name, value in ids.items():
        path = path.replace("{" + name + "}", value)
    assert "{" not in path, f"{path} has a part that this test does not know"
    return path


def sent(api: Any, operation: Operation, ids: dict[str, str], token: str | None, **headers: str) -> Any:
    body: Any = operation.body_example if operation.body_example is not None else {}
    media = operation.body_media[0]
    if operation.method in ("GET", "DELETE", "OPTIONS"):
        return api.send(operation.method, filled(operation, ids), token=token, **headers)
    raw = encode(body) if media.endswith("json") else b"not what it should be"
    return api.send(operation.method, filled(operation, ids), raw, token=token, content_type=media, **headers)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins") / "keeper.py"
    path.write_text(textwrap.dedent(KEEPER), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path, repository: Path) -> Settings:
    asker = repository.with_name("asker.py")
    asker.write_text(textwrap.dedent(ASKER), encoding="utf-8")
    plugins = (plugin, repository, asker)
    return Settings(data=tmp_path_factory.mktemp("data"), plugins=plugins, builtin_plugins=False, port=0, grace_s=0.5)


def approval(api: Any) -> str:
    """A question that waits for its answer, with something attached."""
    tools = {"tools": {"add": ["tool:builtin/calculate"]}}
    access = {"permissions": {"tools": ["call"]}, "resources": tools}
    api.until_health(lambda health: health["plugins"]["asker"]["status"] == "ready")
    api.save_agent("their-asker", "asker/default", access=access, approval={"mode": "always", "expires_s": 86_400})
    assert api.tell("their-asker", "1" + "+\n1" * 60).status == 202
    page = api.until("/api/v1/approvals", lambda page: page["items"])
    return page["items"][0]["approval_id"]


def archive() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as files:
        files.writestr(
            "manifest.yaml",
            textwrap.dedent("""
                apiVersion: bollard/v1
                kind: Plugin
                metadata: {author: first, name: owned, version: 1.0.0, label: {en_US: Owned}}
                spec:
                  runners:
                    - {name: default, label: {en_US: Owned}, permissions: {artifacts: [write]}, entry: "runner:keeper"}
            """),
        )
        files.writestr("runner.py", textwrap.dedent(KEEPER))
    return made.getvalue()


@pytest.fixture(scope="module")
def theirs(api: Any) -> Theirs:
    """One of everything in the first workspace."""
    found = Theirs()
    ids = found.ids
    created = api.tell("keeper", "hello", conversation="their-room")
    assert created.status == 202, created.body
    ids["run_id"], ids["event_id"] = created.json["run_id"], created.json["event_id"]
    ids["conversation_id"] = "their-room"
    artifacts = [
        each.data["data"]["artifact_id"] for each in api.read(ids["run_id"]) if each.type == "artifact.created"
    ]
    (ids["artifact_id"],) = artifacts
    ids["file_id"] = api.post("/api/v1/files?name=their.txt", b"of the first workspace").json["file_id"]
    begun = api.post("/api/v1/uploads", {"conversation": "their-room", "size_bytes": 4})
    ids["upload_id"] = begun.json["upload_id"]
    ids["approval_id"], ids["number"] = approval(api), "1"
    ids["question_id"] = "qst_theirs"  # found through its run, which is theirs
    ids["agent_id"] = api.save_agent("their-agent")["agent_id"]
    binding = {"agent_id": "their-agent", "scope": {"conversation": "their-room"}}
    ids["binding_id"] = "their-binding"
    answer = api.put("/api/v1/bindings/their-binding", binding)
    assert answer.status == 201, answer.body
    assert api.put("/api/v1/bots/their-bot", {"agent_id": "their-agent"}).status == 201
    ids["bot_id"] = "their-bot"
    assert api.put("/api/v1/users/their-user", {"role": "admin"}).status == 201
    ids["user_id"] = "their-user"
    ids["link_id"] = api.post("/api/v1/actors", {"actor": "chat:1", "user_id": "their-user"}).json["link_id"]
    ids["key_id"] = api.post("/api/v1/keys", {"name": "k", "rights": ["runs.read"]}).json["key_id"]
    ticket = api.post("/api/v1/session/tickets").json["ticket"]
    ids["session_id"] = api.post("/api/v1/session/ticket", {"ticket": ticket}, token=None).json["session_id"]
    channel = api.put("/api/v1/channels/their-channel", CHANNEL)
    assert channel.status == 201, channel.body
    ids["channel_id"] = "their-channel"
    schedule = {"cron": "0 0 1 1 *", "agent_id": "their-agent", "paused": True}
    assert api.put("/api/v1/schedules/their-schedule", schedule).status == 201
    ids["schedule_id"] = "their-schedule"
    assert api.put("/api/v1/hooks/their-hook", {"verifier": {"kind": "github"}}).status == 201
    ids["hook_id"] = "their-hook"
    assert api.put("/api/v1/subscriptions/their-subscription", SUBSCRIPTION).status == 201
    ids["subscription_id"] = "their-subscription"
    ids["workspace_id"] = "default"
    installed = api.post("/api/v1/plugins", archive(), content_type="application/zip")
    if installed.status == 409:
        consent = installed.error["details"]["consent"]
        installed = api.post(f"/api/v1/plugins?consent={consent}", archive(), content_type="application/zip")
    assert installed.status == 201, installed.body
    ids["author"], ids["name"] = "first", "owned"
    ids["runtime_id"] = enrolled(api)
    assert api.put("/api/v1/secrets/their-secret", {"value": "a value of theirs"}).status == 201
    ids["secret_name"] = "their-secret"
    text = "---\nname: their-skill\ndescription: Theirs.\n---\nDo it.\n"
    assert api.put("/api/v1/skills/their-skill", {"files": [{"path": "SKILL.md", "text": text}]}).status == 201
    ids["skill_id"] = "their-skill"
    server = {"url": "https://mcp.example.org/mcp", "enabled": False}
    assert api.put("/api/v1/mcp-servers/their-server", server).status == 201
    ids["server_id"] = "their-server"
    ids["source"], ids["item_id"] = ABSENT["source"], ABSENT["item_id"]  # a catalogue is of the whole host
    assert api.put("/api/v1/models/their-model", {"style": "demo"}).status == 201
    ids["model_id"] = "their-model"
    assert api.put("/api/v1/knowledge/their-base", {"name": "Theirs"}).status == 201
    document = {"name": "their.md", "text": "What they know."}
    assert api.put("/api/v1/knowledge/their-base/documents/their-document", document).status == 202
    ready = "/api/v1/knowledge/their-base/documents/their-document"
    api.until(ready, lambda found: found["status"] == "ready")
    ids["kb_id"], ids["document_id"] = "their-base", "their-document"
    assert ids.keys() == ABSENT.keys()
    for name, operation in OPERATIONS.items():
        endless = "stream" in name or "socket" in name
        if operation.method == "GET" and "{" in operation.path and not endless:
            found.before[name] = api.get(filled(operation, ids)).body
    return found


def enrolled(api: Any) -> str:
    """A remote runtime with its own key."""
    code = api.post("/api/v1/runtimes", {"name": "their-runtime"}).json["code"]
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    proof = key.sign(enrol_proof(code, public)).hex()
    body = {"code": code, "public_key": public.hex(), "proof": proof}
    answer = api.post("/api/v1/runtime/enrolment", body, token=None)
    assert answer.status == 201, answer.body
    return "their-runtime"


CHANNEL = OPERATIONS["PUT /api/v1/channels/{channel_id}"].body_example
SUBSCRIPTION = OPERATIONS["PUT /api/v1/subscriptions/{subscription_id}"].body_example


@pytest.fixture(scope="module")
def stranger(api: Any) -> str:
    """A key of a second workspace that may do everything there."""
    assert api.put("/api/v1/workspaces/second", {}).status == 201
    rights = sorted(rights_of("admin"))
    # A new model would become the default of a workspace without one, and the next one would not.
    own = {"style": "openai-chat", "base_url": "https://api.example.org/v1", "model": "own"}
    assert api.put("/api/v1/models/own", own, bollard_workspace="second").status == 201
    made = api.post("/api/v1/keys", {"name": "all", "rights": rights}, bollard_workspace="second")
    assert made.status == 201, made.body
    return made.json["token"]


@pytest.fixture(scope="module")
def onlooker(api: Any) -> str:
    """A key of a third workspace, where no test has used the names of the first."""
    assert api.put("/api/v1/workspaces/third", {}).status == 201
    rights = sorted(rights_of("admin"))
    made = api.post("/api/v1/keys", {"name": "all", "rights": rights}, bollard_workspace="third")
    assert made.status == 201, made.body
    return made.json["token"]


SECRET = re.compile(r'whsec_[A-Za-z0-9+/=]+|(?<="secret":")[A-Za-z0-9_-]{43}(?=")')
MOMENT = re.compile(r'"(created|set)_at":[0-9.]+')


def told(answer: Any, ids: dict[str, str]) -> tuple[int, str]:
    """Status and body; the requested id may be repeated."""
    text = answer.body.decode()
    for name, value in ids.items():
        text = text.replace(f'"{value}"', f'"<{name}>"').replace(f"folder is {value}", f"folder is <{name}>")
    return answer.status, MOMENT.sub(r'"\1_at":0', SECRET.sub("<secret>", text))


@for_each("name", [name for name, each in GUARDED.items() if "{" in each.path])
def test_a_resource_of_another_workspace_looks_absent(api: Any, theirs: Theirs, stranger: str, name: str) -> None:
    operation = GUARDED[name]
    foreign = sent(api, operation, theirs.ids, stranger)
    absent = sent(api, operation, ABSENT, stranger)
    assert told(foreign, theirs.ids) == told(absent, ABSENT)
    assert foreign.status != 401
    if operation.method == "GET":
        assert foreign.status in (403, 404, 426), foreign.body


@for_each(
    "name",
    [
        name
        for name, each in GUARDED.items()
        if each.method == "GET" and each.name not in ("streamEvents", "streamChanges")
    ],
)
def test_no_list_and_no_response_contains_data_of_another_workspace(
    api: Any, theirs: Theirs, onlooker: str, name: str
) -> None:
    body = sent(api, GUARDED[name], ABSENT, onlooker).body.decode()
    for thing in (
        "run_id",
        "event_id",
        "artifact_id",
        "file_id",
        "conversation_id",
        "agent_id",
        "binding_id",
        "user_id",
        "key_id",
        "session_id",
    ):
        assert theirs.ids[thing] not in body


def test_the_second_workspace_changed_nothing_in_the_first(api: Any, theirs: Theirs) -> None:
    """Runs behind the tests above, which tried everything."""
    for name, before in theirs.before.items():
        assert api.get(filled(OPERATIONS[name], theirs.ids)).body == before, name


class Elsewhere:
    """Asks from another address each time: strangers have a rate, and this test asks often."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._asked = 0

    def send(self, method: str, path: str, body: Any = None, *, token: str | None, **headers: str) -> tuple[int, bytes]:
        self._asked += 1
        address = f"127.0.{1 + self._asked // 200}.{1 + self._asked % 200}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            named["authorization"] = f"Bearer {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self._port, source_address=(address, 0))
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers=named)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture(scope="module")
def elsewhere(api: Any) -> Elsewhere:
    return Elsewhere(api.port)


@for_each("name", GUARDED)
def test_a_request_without_a_valid_token_gets_no_data(elsewhere: Elsewhere, theirs: Theirs, name: str) -> None:
    for token in (None, "blk_0000000000000000_" + "0" * 64):
        there, absent = (sent(elsewhere, GUARDED[name], ids, token) for ids in (theirs.ids, ABSENT))
        assert there == absent
        # With one that may be the token of another run, as far as the host can tell, the run is not there.
        assert there[0] == (401 if token is None or not GUARDED[name].run_token else 404)


@pytest.fixture(scope="module")
def roles(api: Any) -> dict[str, str]:
    """A key of a user of each role that may do all that the user may."""
    tokens: dict[str, str] = {}
    for role in ROLES:
        user_id = f"one-{role}"
        body = {"role": role, "password": "correct horse battery"}
        assert api.put(f"/api/v1/users/{user_id}", body).status == 201
        login = api.post("/api/v1/session", {"user": user_id, "password": body["password"]}, token=None)
        tokens[role] = login.json["token"]
    return tokens


HARMFUL = frozenset({"DELETE /api/v1/session", "GET /api/v1/events/stream", "GET /api/v1/changes/stream"})
"""Rights of a role that this test does not use: one would end the session of the test, the other has no end."""


@for_each("role", ROLES)
@for_each("name", sorted(GUARDED.keys() - HARMFUL))
def test_each_role_may_do_exactly_what_the_table_allows(api: Any, roles: dict[str, str], name: str, role: str) -> None:
    operation = GUARDED[name]
    answer = sent(api, operation, ABSENT, roles[role])
    refused = answer.status == 403 and answer.error["details"].get("right") == operation.right is not None
    assert refused == (operation.right is not None and operation.right not in rights_of(role)), answer.body
    assert answer.status < 500 or answer.error["code"] == "draining", answer.body
