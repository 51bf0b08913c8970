"""Logging in for servers that want it: a real authorization server, a real vault, and a browser that follows
redirects."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.host.mcp.conftest import Guarded, KnownSecrets, Servers
from tests.tables import for_each

from bollard.host.egress.client import EgressClient
from bollard.host.errors import Conflict, InvalidRequest, ToolFailed
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.log.writer import Writer
from bollard.host.mcp.connection import McpConnection
from bollard.host.mcp.limits import LOGIN_S
from bollard.host.mcp.logins import CompleteMcpLogin
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.mcp.source import McpSource
from bollard.host.secrets.redactor import MARK, Redactor
from bollard.host.secrets.sealing import KEY_FILE, Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

pytestmark = pytest.mark.full


BACK = "http://127.0.0.1:9/callback"


@dataclass
class Desk:
    """A source over a real vault, with shared helpers for these tests."""

    servers: Servers
    vault: Vault
    redactor: Redactor
    store: Store
    clock: ManualClock

    @property
    def source(self) -> McpSource:
        return self.servers.source

    async def begin(self, name: str, by: str = "ann") -> dict[str, str]:
        """The parameters that a browser returns with."""
        begun = await self.source.begin_login("w", name, BACK, by)
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(begun.url)
        there = urlsplit(answer.headers["location"])
        assert f"{there.scheme}://{there.netloc}{there.path}" == BACK
        return {key: values[0] for key, values in parse_qs(there.query).items()}

    async def complete(self, name: str, brought: dict[str, str], by: str = "ann") -> McpConnection:
        await self.source.complete_login("w", name, CompleteMcpLogin.from_wire({**brought}), by)
        found = self.source.connection("w", name)
        assert found is not None
        return found

    async def ready(self, name: str, guarded: Guarded, **fields: Any) -> McpConnection:
        """Saved, logged in for, connected and agreed to."""
        await self.servers.add(name, url=guarded.url, auth="oauth", **fields)
        connection = await self.complete(name, await self.begin(name))
        await self.servers.until(lambda: connection.connected)
        await self.servers.agree(connection)
        return connection

    async def whisper(self, name: str) -> str:
        said = await self.servers.call(f"mcp:{name}/whisper")
        assert not said.is_error
        return str(said.content[0]["text"])


@contextlib.asynccontextmanager
async def desk_over(store: Store, folder: Path, incarnation: str, clock: ManualClock) -> AsyncGenerator[Desk]:
    key = SigningKey(SigningKey.new_secret())
    journal = Journal(WriterThread(Writer(store, BlobStore(folder / "blobs"), clock, incarnation=incarnation, key=key)))
    await journal.start()
    redactor = Redactor()
    vault = Vault(journal=journal, clock=clock, sealer=Sealer(folder / KEY_FILE), redactor=redactor)
    source = McpSource(
        changes=SavedChanges(journal, clock),
        secrets=vault,
        clock=clock,
        home=folder / "mcp",
        egress=EgressClient(),
        hide=redactor.text,
        reconnect_s=0.05,
    )
    await vault.load(store)
    await source.load(store)
    source.start()
    yield Desk(Servers(source, KnownSecrets(), store, folder), vault, redactor, store, clock)
    await source.stop()
    await journal.close()


@pytest.fixture(scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    clock = ManualClock()
    async with desk_over(MemoryStore(clock), tmp_path_factory.mktemp("desk"), "i1", clock) as opened:
        yield opened


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_needs_a_login_and_its_tools_work_after_it(desk: Desk, guarded: Guarded, protocol: str) -> None:
    connection = await desk.servers.add(protocol, url=guarded.url, auth="oauth", protocol=protocol)
    await desk.servers.until(lambda: connection.status == "needs_login")
    absent = desk.source.absent("w")[f"mcp:{protocol}/"].sentence
    assert f"needs a login: no one has logged in to it; log in with `bollard mcp login {protocol}`" in absent
    connection = await desk.complete(protocol, await desk.begin(protocol))
    await desk.servers.until(lambda: connection.connected)
    await desk.servers.agree(connection)
    assert await desk.whisper(protocol) == "psst"


@pytest.mark.smoke
async def test_an_expired_token_is_renewed_and_the_new_one_is_saved(desk: Desk, guarded: Guarded) -> None:
    guarded.control(expires=0)
    await desk.ready("expiring", guarded)
    before = guarded.seen["granted"].count("refresh")
    assert await desk.whisper("expiring") == "psst"
    assert guarded.seen["granted"].count("refresh") > before
    guarded.control(expires=3600)
    assert await desk.whisper("expiring") == "psst"
    newest = guarded.seen["issued"][-1]
    await desk.servers.until(lambda: desk.redactor.text("w", newest) == MARK)


async def test_a_rejected_token_is_renewed_before_its_expiry(desk: Desk, guarded: Guarded) -> None:
    await desk.ready("forgetful", guarded)
    guarded.control(forget="access")
    assert await desk.whisper("forgetful") == "psst"


async def test_a_server_whose_login_cannot_be_renewed_needs_a_login(desk: Desk, guarded: Guarded) -> None:
    connection = await desk.ready("over", guarded)
    guarded.control(forget="refresh")
    guarded.control(forget="access")
    with pytest.raises(ToolFailed, match="not sent"):
        await desk.whisper("over")
    await desk.servers.until(lambda: connection.status == "needs_login")
    assert desk.servers.offered("over") == []
    again = await desk.complete("over", await desk.begin("over"))
    await desk.servers.until(lambda: again.connected)
    assert await desk.whisper("over") == "psst"


async def test_an_unavailable_authorization_server_loses_no_login(desk: Desk, guarded: Guarded) -> None:
    connection = await desk.ready("patient", guarded)
    guarded.control(forget="access", down=1)
    await desk.source.save({"url": guarded.url, "auth": "oauth"}, "w", "patient", by="ann", edited=None)
    connection = desk.source.connection("w", "patient")
    assert connection is not None
    await desk.servers.until(lambda: connection.status == "waiting")
    guarded.control(reset=1)
    await desk.servers.until(lambda: connection.connected)


async def test_a_login_is_completed_once_by_its_starter_with_its_state(desk: Desk, guarded: Guarded) -> None:
    await desk.servers.add("careful", url=guarded.url, auth="oauth")
    with pytest.raises(Conflict, match="you have no login"):
        await desk.complete("careful", {"code": "made-up", "state": "made-up"})
    brought = await desk.begin("careful")
    with pytest.raises(InvalidRequest, match="state does not match the login"):
        await desk.complete("careful", {**brought, "state": "x" * 43})
    with pytest.raises(Conflict, match="you have no login"):
        await desk.complete("careful", brought, by="bob")
    connection = await desk.complete("careful", brought)
    await desk.servers.until(lambda: connection.connected)
    with pytest.raises(Conflict, match="you have no login"):
        await desk.complete("careful", brought)


async def test_an_incomplete_login_expires(desk: Desk, guarded: Guarded) -> None:
    await desk.servers.add("late", url=guarded.url, auth="oauth")
    brought = await desk.begin("late")
    desk.clock.advance(LOGIN_S + 1)
    with pytest.raises(Conflict, match="you have no login"):
        await desk.complete("late", brought)


async def test_a_refused_code_ends_the_login_with_the_reason(desk: Desk, guarded: Guarded) -> None:
    guarded.control(refuse="codes")
    connection = await desk.servers.add("refused", url=guarded.url, auth="oauth")
    brought = await desk.begin("refused")
    with pytest.raises(Conflict, match=r"failed: .*invalid_grant"):
        await desk.complete("refused", brought)
    await desk.servers.until(lambda: connection.status == "needs_login")


async def test_an_authorization_server_without_s256_is_refused_before_the_login(desk: Desk, guarded: Guarded) -> None:
    await desk.servers.add("plain", url=guarded.url, auth="oauth")
    for methods in ("missing", "plain"):
        guarded.control(pkce=methods)
        with pytest.raises(Conflict, match="PKCE with S256") as refused:
            await desk.begin("plain")
        assert "S256" in refused.value.hint
    guarded.control(pkce="plain S256")
    assert await desk.begin("plain")


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example.org/callback",
        "http://evil.example.org:80/callback",
        "http://127.0.0.1/callback",
        "http://127.0.0.1.evil.example.org:80/callback",
        "http://127.0.0.1:80@evil.example.org:80/callback",
        "http://127.0.0.1:80/callback?next=x",
        "http://10.0.0.1:80/callback",
        "http://127.0.0.1:99999/callback",
        "bollard://callback",
        "",
    ],
)
async def test_a_login_redirects_to_loopback_only(desk: Desk, guarded: Guarded, uri: str) -> None:
    await desk.servers.add("strict", url=guarded.url, auth="oauth")
    with pytest.raises(InvalidRequest, match="not a loopback address with a port"):
        await desk.source.begin_login("w", "strict", uri, "ann")


async def test_a_logout_and_a_removal_of_the_server_delete_the_login(desk: Desk, guarded: Guarded) -> None:
    await desk.ready("leaving", guarded)
    assert desk.vault.of_thing("w", "mcp_server", "leaving") == ["mcp_server/leaving/login"]
    await desk.source.logout("w", "leaving", "ann")
    connection = desk.source.connection("w", "leaving")
    assert connection is not None
    await desk.servers.until(lambda: connection.status == "needs_login")
    assert desk.vault.of_thing("w", "mcp_server", "leaving") == []
    with pytest.raises(Conflict, match="no one has logged in"):
        await desk.source.logout("w", "leaving", "ann")
    await desk.complete("leaving", await desk.begin("leaving"))
    await desk.source.repository.delete("w", "leaving", by="ann", edited=None)
    assert desk.vault.of_thing("w", "mcp_server", "leaving") == []


async def test_tokens_reach_no_other_address_and_headers_no_authorization_server(desk: Desk, guarded: Guarded) -> None:
    await desk.ready("moving", guarded, headers={"x-tenant": "blue"})
    assert "x-tenant" not in guarded.seen["headers"]
    moved = await desk.servers.add("moving", url=f"{guarded.url}?other=1", auth="oauth")
    await desk.servers.until(lambda: moved.status == "needs_login")


async def test_a_login_uses_the_configured_scopes_and_client(desk: Desk, guarded: Guarded) -> None:
    await desk.servers.add("scoped", url=guarded.url, auth="oauth", scopes=["read", "write"])
    begun = await desk.source.begin_login("w", "scoped", BACK, "ann")
    assert parse_qs(urlsplit(begun.url).query)["scope"] == ["read write"]
    await desk.vault.set("w", "CLIENT", "secret-of-the-client", by="ann")
    clients = guarded.seen["clients"]
    own = {"client_id": "by-hand", "client_secret": "secret:CLIENT"}
    await desk.servers.add("owned", url=guarded.url, auth="oauth", **own)
    begun = await desk.source.begin_login("w", "owned", BACK, "ann")
    assert parse_qs(urlsplit(begun.url).query)["client_id"] == ["by-hand"]
    assert guarded.seen["clients"] == clients, "none is registered"


async def test_a_server_without_a_login_gives_a_reason(desk: Desk, guarded: Guarded, http_server: str) -> None:
    plain = await desk.servers.add("open", url=http_server)
    await desk.servers.until(lambda: plain.connected)
    await desk.servers.add("open", url=http_server, auth="oauth")
    with pytest.raises(Conflict, match="does not require a login"):
        await desk.source.begin_login("w", "open", BACK, "ann")
    await desk.servers.add("plain", url=guarded.url)
    with pytest.raises(Conflict, match="has no login"):
        await desk.source.begin_login("w", "plain", BACK, "ann")
    await desk.servers.add("off", url=guarded.url, auth="oauth", enabled=False)
    with pytest.raises(Conflict, match="is disabled"):
        await desk.source.begin_login("w", "off", BACK, "ann")


async def test_a_login_survives_a_restart_sealed_and_is_in_no_record(
    store: Store, tmp_path: Path, clock: ManualClock, guarded: Guarded
) -> None:
    async with desk_over(store, tmp_path, "i1", clock) as desk:
        await desk.ready("kept", guarded)
        assert await desk.whisper("kept") == "psst"
    guarded.control(expires=0)
    async with desk_over(store, tmp_path, "i2", clock) as desk:
        connection = desk.source.connection("w", "kept")
        assert connection is not None
        await desk.servers.until(lambda: connection.connected)
        assert await desk.whisper("kept") == "psst"
        issued = guarded.seen["issued"]
        await desk.servers.until(lambda: desk.redactor.text("w", issued[-1]) == MARK)
    rows = store.records(0, 1000)
    kept = store.all_kept("secret")
    policies = [row.body for row in store.policies("mcp_server", "w") + store.policies("secret", "w")]
    everything = b"".join([*(row.data or b"" for row in rows), *(row.body for row in kept), *policies])
    assert [token for token in issued if token.encode() in everything] == []
    used = [msgspec.json.decode(row.data) for row in rows if row.type == "secret.used" and row.data]
    assert {(each["name"], each["purpose"]) for each in used} == {("mcp_server/kept/login", "mcp:kept")}


async def test_a_foreign_authorization_server_does_not_lead_into_the_internal_network(desk: Desk) -> None:
    """A server that names an authorization server on an address that no server has."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        here = f"http://127.0.0.1:{port}"
        if b"oauth-protected-resource" in head.split(b"\r\n")[0]:
            named = {"resource": f"{here}/mcp", "authorization_servers": ["http://169.254.169.254/latest"]}
            body = msgspec.json.encode(named)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
            writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)
        else:
            writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        await desk.servers.add("stranger", url=f"http://127.0.0.1:{port}/mcp", auth="oauth")
        with pytest.raises(Conflict, match="is not an address of a server"):
            await desk.source.begin_login("w", "stranger", BACK, "ann")


@for_each(
    ("more", "said"),
    [
        ({"auth": "basic"}, "auth"),
        ({"client_id": "x"}, "is only for a login"),
        ({"auth": "oauth", "client_secret": "secret:x"}, "needs a client_id"),
        ({"auth": "oauth", "client_id": "x", "client_secret": "plain"}, "client_secret"),
        ({"auth": "oauth", "headers": {"authorization": "Bearer secret:x"}}, "written by the login"),
        ({"auth": "oauth", "scopes": ["two words"]}, "scopes"),
    ],
)
def test_an_invalid_login_setting_is_refused_when_saved(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        SavedMcpServer.read({"server_id": "x", "url": "https://mcp.example.org/mcp", **more})
    with pytest.raises(InvalidRequest, match="a command has no login"):
        SavedMcpServer.read({"server_id": "x", "command": "x", "auth": "oauth"})
