"""What a plugin needs beyond nothing: the comparison of two versions, and the roots of an operator."""

from pathlib import Path
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.errors import ConsentNeeded, InvalidRequest
from bollard.host.plugins.description import RequestedAccess, describe
from bollard.host.plugins.installation import check_consent, compare, consent_for
from bollard.host.plugins.sandbox_access import check_roots
from bollard.host.plugins.sandbox_pins import SandboxPins
from bollard.protocol import PluginSandbox

DIGEST = "0" * 64


def needs(**sandbox: Any) -> RequestedAccess:
    return RequestedAccess(sandbox=PluginSandbox.from_wire(sandbox))


def test_the_needs_of_a_manifest_are_part_of_its_consent(write_folder: Any) -> None:
    asks = "{network: [b.example.org, a.example.org], memory_mib: 256}"
    said = describe(write_folder(sandbox=asks))
    quiet = describe(write_folder(name="quiet"))
    assert said.access.sandbox.network == ("a.example.org", "b.example.org")
    assert said.access.to_wire()["sandbox"] == {"network": ["a.example.org", "b.example.org"], "memory_mib": 256}
    assert "sandbox" not in quiet.access.to_wire()
    assert RequestedAccess.from_wire(said.access.to_wire()) == said.access
    with pytest.raises(ConsentNeeded) as refused:
        check_consent(DIGEST, said, RequestedAccess(runners=said.access.runners), None)
    assert refused.value.details["change"]["added"] == [
        "memory_mib 256",
        "network a.example.org",
        "network b.example.org",
    ]
    assert refused.value.details["consent"] == consent_for(DIGEST, said)


@for_each(
    ("before", "after", "added"),
    [
        ({}, {"network": ["a.org"]}, ["network a.org"]),
        ({}, {"network": "open"}, ["network open"]),
        ({"network": "open"}, {"network": ["a.org"]}, []),
        ({"network": ["a.org"]}, {"network": "open"}, ["network open"]),
        ({"network": "open"}, {"network": "open"}, []),
        ({"network": ["*.a.org"]}, {"network": ["b.c.a.org", "*.c.a.org"]}, []),
        ({"network": ["*.a.org"]}, {"network": ["a.org"]}, ["network a.org"]),
        ({"network": ["b.a.org"]}, {"network": ["*.a.org"]}, ["network *.a.org"]),
        ({"network": ["a.org"]}, {"network": ["a.org:443"]}, []),
        ({"network": ["a.org:443"]}, {"network": ["a.org"]}, ["network a.org"]),
        ({"network": ["a.org"]}, {"network": ["a.org:8443"]}, ["network a.org:8443"]),
        ({"read": ["/srv"]}, {"read": ["/srv/a"]}, []),
        ({"read": ["/srv"]}, {"read": ["/srv2"]}, ["read /srv2"]),
        ({"write": ["/srv"]}, {"read": ["/srv/a"]}, []),
        ({"read": ["/srv"]}, {"write": ["/srv/a"]}, ["write /srv/a"]),
        ({"memory_mib": 512}, {"memory_mib": 256}, []),
        ({"memory_mib": 512}, {"memory_mib": 1024}, ["memory_mib 1024"]),
        ({"cpu": 1.0}, {"cpu": 1.5}, ["cpu 1.5"]),
    ],
)
def test_only_a_wider_need_asks_again(before: dict[str, Any], after: dict[str, Any], added: list[str]) -> None:
    change = compare(needs(**before), needs(**after))
    assert [*change.added] == added
    assert [*compare(needs(**after), needs(**before)).removed] == added


def test_a_path_must_be_below_a_root_of_the_operator(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "photos").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    check_roots("acme/a", PluginSandbox(read=(f"{root}/photos",), write=(f"{root}/later/made",)), [root])
    for path in (f"{tmp_path}/secret", f"{root}/link/x", f"{root}2"):
        with pytest.raises(InvalidRequest) as refused:
            check_roots("acme/a", PluginSandbox(write=(path,)), [root])
        assert (refused.value.details["reason"], refused.value.details["path"]) == ("plugin_path_denied", path)
    with pytest.raises(InvalidRequest):
        check_roots("acme/a", PluginSandbox(read=("/srv",)), [])


def test_needs_of_a_folder_are_those_of_the_start() -> None:
    path, pins = Path("/srv/parrot"), SandboxPins()
    agreed = PluginSandbox.from_wire({"network": ["a.example"], "memory_mib": 256})
    pins.agree(path, agreed)
    wider = PluginSandbox.from_wire(
        {"network": ["a.example", "evil.example"], "read": ["/srv/photos"], "memory_mib": 99}
    )
    assert pins.narrow(path, wider) == (agreed, ["network evil.example", "read /srv/photos"])
    less = PluginSandbox.from_wire({"network": ["a.example"]})
    assert pins.narrow(path, less) == (less, [])
    assert pins.narrow(path, agreed) == (agreed, [])


def test_the_first_needs_of_a_folder_that_was_unreadable_count() -> None:
    pins, first = SandboxPins(), PluginSandbox.from_wire({"read": ["/srv/photos"]})
    assert pins.narrow(Path("/srv/parrot"), first) == (first, [])
    assert pins.narrow(Path("/srv/parrot"), PluginSandbox(network="open")) == (first, ["network open"])
