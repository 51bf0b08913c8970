"""Servers and their consents, on every store: the same after a restart, and removed with a deletion."""

from collections.abc import Callable

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.capabilities.capability import Flow
from bollard.host.errors import Conflict, NotFound
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.mcp.consent import Terms, ToolConsent
from bollard.host.mcp.limits import CONSENT_BYTES, SERVERS_OF_WORKSPACE
from bollard.host.mcp.server_repository import McpServerRepository
from bollard.host.store.store import Store

FLOW = Flow(reads_private=True, brings_untrusted=False, sends_out=True)
YES = ToolConsent(
    definition_sha256="a" * 64,
    definition={"description": "Act.", "input_schema": {"type": "object"}, "output_schema": None, "version": "v"},
    terms=Terms(risk="critical", flow=FLOW, effects="idempotent", approval="always"),
    by="ann",
    at=1_700_000_000.123,
)


async def test_a_server_and_its_consents_survive_a_restart(
    store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    repository = McpServerRepository(SavedChanges(open_journal(store), clock), lambda *_: None)
    body = {"url": "https://mcp.example.org/mcp", "headers": {"Authorization": "Bearer secret:key"}, "timeout_s": 5.0}
    await repository.save(body, "w", "afar", by="ann", edited=None)
    await repository.save(
        {"command": "npx", "args": ["x"], "env": {"A": "b"}, "allow": []}, "w", "near", by="ann", edited=0
    )
    await repository.agree("w", "afar", {"act": YES, "other": YES}, frozenset(), by="ann")
    await repository.agree("w", "afar", {}, frozenset({"other"}), by="ann")
    await repository.save({**body, "timeout_s": 6.0}, "w", "afar", by="ann", edited=3)
    again = McpServerRepository(SavedChanges(open_journal(store, "i2"), clock), lambda *_: None)
    await again.load(store)
    assert again.all("w") == repository.all("w")
    kept = again.get("w", "afar").value
    assert (kept.agreed, kept.server.timeout_s) == ({"act": YES}, 6.0)
    assert not again.get("w", "near").value.server.allows("act"), "an empty list allows nothing"
    with pytest.raises(Conflict):
        await again.save(body, "w", "afar", by="bob", edited=1)
    await again.delete("w", "afar", by="ann", edited=None)
    with pytest.raises(NotFound):
        await again.agree("w", "afar", {"act": YES}, frozenset(), by="ann")
    assert [row.id for row in store.policies("mcp_server", "w")] == ["near"]


async def test_servers_of_a_workspace_and_consents_of_a_server_have_limits(
    memory_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    repository = McpServerRepository(SavedChanges(open_journal(memory_store), clock), lambda *_: None)
    for number in range(SERVERS_OF_WORKSPACE):
        await repository.save({"command": "x"}, "w", f"s{number}", by="ann", edited=None)
    with pytest.raises(Conflict, match="already"):
        await repository.save({"command": "x"}, "w", "one-more", by="ann", edited=None)
    large = ToolConsent(
        definition_sha256="b" * 64, definition={"description": "x" * CONSENT_BYTES}, terms=Terms(), by="ann", at=0.0
    )
    with pytest.raises(Conflict, match="the consents for s0 exceed"):
        await repository.agree("w", "s0", {"act": large}, frozenset(), by="ann")
    assert repository.get("w", "s0").value.agreed == {}
