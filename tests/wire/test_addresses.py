"""URLs of providers: which are allowed, and the problems of the others."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from tests.tables import for_each

from bollard.wire.addresses import AddressKind, carried_address, is_loopback, url_problem

PROVIDER = AddressKind(of="provider", example="https://api.example.org/v1", has_query=False, instead="name a secret")
SERVER = AddressKind(of="server", example="https://mcp.example.org/mcp", has_query=True, instead="use headers")


@for_each("kind", [PROVIDER, SERVER])
@for_each("url", ["https://api.example.org/v1", "http://10.1.2.3:8000/v1", "http://localhost:8000", "http://[::1]/v1"])
def test_an_address_of_another_or_of_the_internal_network_is_reached(kind: AddressKind, url: str) -> None:
    assert url_problem(url, kind) is None


def test_a_query_is_allowed_in_the_address_of_a_server_and_not_of_a_provider() -> None:
    url = "https://api.example.org/v1?team=a"
    assert url_problem(url, SERVER) is None
    found = url_problem(url, PROVIDER)
    assert found is not None
    assert (found.reason, found.hint) == ("url_credentials_or_query", "name a secret")


@for_each(
    ("address", "carried"),
    [
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::10.1.2.3", "10.1.2.3"),
        ("64:ff9b::10.1.2.3", "10.1.2.3"),
        ("2002:a01:203::1", "10.1.2.3"),
        ("2001:0:4136:e378:8000:63bf:f5fe:fdfc", "10.1.2.3"),
        ("::1", None),
        ("2606:4700:4700::1111", None),
        ("64:ff9b:1::10.1.2.3", None),
    ],
)
def test_an_ipv4_address_is_found_in_every_ipv6_form(address: str, carried: str | None) -> None:
    assert carried_address(IPv6Address(address)) == (None if carried is None else IPv4Address(carried))


@for_each(
    "host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fe80::1]", "0.0.0.0", "224.0.0.1"]
)
def test_link_local_multicast_and_unspecified_addresses_are_refused(host: str) -> None:
    for kind in (PROVIDER, SERVER):
        found = url_problem(f"https://{host}/v1", kind)
        assert found is not None
        assert found.message.endswith(f"is not an address of a {kind.of}")


@pytest.mark.parametrize(
    ("url", "reason", "problem"),
    [
        ("http://api.example.org/v1", "url_http_name", "uses plain http with a host name"),
        ("http://8.8.8.8/v1", "url_http_elsewhere", "uses plain http to another network"),
        ("ftp://api.example.org", "url_scheme", "is not an http or https address"),
        ("https://api.example.org:99999", "url_malformed", "is not a valid address: Port out of range 0-65535"),
    ],
)
def test_a_refused_url_has_a_reason_a_message_and_a_hint(url: str, reason: str, problem: str) -> None:
    found = url_problem(url, PROVIDER)
    assert found is not None
    assert (found.reason, found.message) == (reason, problem)
    assert found.hint


@for_each(
    ("host", "own"),
    [("localhost", True), ("127.8.9.1", True), ("::1", True), ("10.0.0.1", False), ("example.org", False), ("", False)],
)
def test_loopback_is_recognised_by_its_text(host: str, own: bool) -> None:
    assert is_loopback(host) is own
