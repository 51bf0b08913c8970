"""All sources of a host as one."""

from typing import Any

from tests.doubles.memory_source import MemorySource

from bollard.host.capabilities.sources import Sources, why_absent
from bollard.host.reason import Why


def test_capabilities_are_offered_by_id_and_executed_by_their_own_source(capability: Any) -> None:
    builtin, server = MemorySource([capability("tool:builtin/now")]), MemorySource([capability("mcp:github/find")])
    sources = Sources([builtin])
    sources.add(server)
    assert [each.id for each in sources.capabilities("w")] == ["mcp:github/find", "tool:builtin/now"]
    assert sources.adapter("w", "mcp:github/find") is server.adapter
    assert sources.adapter("w", "tool:builtin/now") is builtin.adapter
    assert sources.adapter("w", "tool:builtin/then") is None


def test_added_changed_and_lost_capabilities_are_seen_at_once(capability: Any) -> None:
    server = MemorySource()
    sources = Sources([MemorySource(), server])
    assert sources.capabilities("w") == ()
    before, granted = sources.revision, capability("mcp:github/find")
    server.put(granted)
    assert sources.revision > before
    assert sources.stands("w", granted)
    server.put(capability("mcp:github/find", description="Does more than you think."))
    assert not sources.stands("w", granted)
    server.lose("mcp:github/", "the server is not connected")
    assert (sources.get("w", "mcp:github/find"), sources.stands("w", granted)) == (None, False)
    assert str(sources.why_absent("w", "mcp:github/find")) == "the server is not connected"


def test_a_source_of_one_workspace_offers_nothing_to_another(capability: Any) -> None:
    source = MemorySource()
    source.put(capability("mcp:github/find"), workspace="mine")
    sources = Sources([source])
    assert [each.id for each in sources.capabilities("mine")] == ["mcp:github/find"]
    assert sources.capabilities("other") == ()
    assert sources.adapter("other", "mcp:github/find") is None


def test_two_capabilities_with_one_id_are_both_withheld_with_a_reason(capability: Any) -> None:
    first = capability("tool:builtin/now")
    sources = Sources([MemorySource([first]), MemorySource([capability("tool:builtin/now", description="Mine.")])])
    assert sources.capabilities("w") == ()
    assert sources.adapter("w", "tool:builtin/now") is None
    assert "2 sources" in str(sources.why_absent("w", "tool:builtin/now"))


def test_the_longest_prefix_gives_the_reason_for_an_absent_capability() -> None:
    said = {"tool:acme/": "no such author", "tool:acme/docs/": "the plugin is off", "tool:acme/docs/find": "changed"}
    absent = {name: Why(reason) for name, reason in said.items()}
    assert str(why_absent(absent, "tool:acme/docs/find")) == "changed"
    assert str(why_absent(absent, "tool:acme/docs/other")) == "the plugin is off"
    assert str(why_absent(absent, "tool:acme/else/other")) == "no such author"
    assert why_absent(absent, "tool:acmes/docs/find") is None
    assert why_absent(absent, "agent:acme") is None
