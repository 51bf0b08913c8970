"""Short names that models can say. None of two equal ones wins."""

import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import NAME_CHARACTERS, short_names

SAFE = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_a_unique_name_stays_short(capability: Any) -> None:
    names = short_names([capability("tool:builtin/now"), capability("mcp:github/create_issue")])
    assert names == {"tool:builtin/now": "now", "mcp:github/create_issue": "create_issue"}


def test_two_equal_names_both_get_the_name_of_their_source(capability: Any) -> None:
    found = [capability("tool:builtin/search"), capability("mcp:web/search"), capability("tool:acme/docs/search")]
    assert short_names(found) == {
        "tool:builtin/search": "builtin__search",
        "mcp:web/search": "web__search",
        "tool:acme/docs/search": "acme_docs__search",
    }


def test_names_that_differ_only_in_case_are_equal(capability: Any) -> None:
    names = short_names([capability("tool:builtin/now"), capability("mcp:clock/NOW")])
    assert names == {"tool:builtin/now": "builtin__now", "mcp:clock/NOW": "clock__NOW"}


def test_a_tool_cannot_take_the_generated_name_of_another(capability: Any) -> None:
    found = [capability("tool:builtin/x"), capability("mcp:web/x"), capability("mcp:evil/builtin__x")]
    names = short_names(found)
    assert names["mcp:evil/builtin__x"] == "evil__builtin__x"
    assert names["tool:builtin/x"].startswith("builtin__x_")
    assert names["mcp:web/x"] == "web__x"


def test_invalid_characters_are_replaced_and_long_names_stay_distinct(capability: Any) -> None:
    found = [capability("mcp:s/a.b c"), capability("mcp:s/时间"), capability("mcp:s/" + "n" * 70 + "1")]
    found.append(capability("mcp:s/" + "n" * 70 + "2"))
    names = short_names(found)
    assert names["mcp:s/a.b c"] == "a_b_c"
    assert names["mcp:s/时间"] == "__"
    assert len({*names.values()}) == len(found)


ids = st.builds(
    lambda server, name: (f"mcp:{server}/{name}", server, name),
    st.sampled_from(["a", "b", "a__b"]),
    st.sampled_from(["x", "X", "a__x", "b__x", "x.y", "x_y", "n" * 64, "n" * 65, "é", ""]) | st.text(max_size=70),
)


def _named(capability_id: str, server: str, name: str) -> Capability:
    return Capability(id=capability_id, name=name, kind="mcp", description="", input_schema={}, source=f"mcp:{server}")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ids, max_size=12, unique_by=lambda each: each[0]), st.randoms(use_true_random=False))
def test_every_name_is_safe_and_unique_in_any_order(found: Any, chance: Any) -> None:
    capabilities = [_named(*each) for each in found]
    names = short_names(capabilities)
    assert names.keys() == {each.id for each in capabilities}
    assert len({name.casefold() for name in names.values()}) == len(names)
    assert all(SAFE.fullmatch(name) and len(name) <= NAME_CHARACTERS for name in names.values())
    chance.shuffle(capabilities)
    assert short_names(capabilities) == names
