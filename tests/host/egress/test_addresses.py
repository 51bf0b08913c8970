"""Which addresses are outside, and every spelling that would lead inside (S41, F44)."""

import ipaddress

import pytest
from tests.tables import for_each

from bollard.host.egress.addresses import AllowList, address_problem, host_problem, parse_allow

OUTSIDE = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2001:4860:4860::8888", "64:ff9b::808:808"]
INSIDE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "::8.8.8.8",
    "100::1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "4000::1",
    "e000::1",
]


@for_each("text", OUTSIDE)
def test_globally_routable_addresses_are_outside(text: str) -> None:
    assert address_problem(ipaddress.ip_address(text)) is None


@for_each("text", INSIDE)
def test_every_other_address_is_inside_in_every_spelling(text: str) -> None:
    assert address_problem(ipaddress.ip_address(text)) is not None


@for_each("first", [10, 100, 127, 169, 172, 192, 224, 255])
def test_inside_addresses_are_inside_in_every_form(first: int) -> None:
    carried = ipaddress.IPv4Address(f"{first}.{64 if first == 100 else 254 if first == 169 else 16}.1.1")
    if first == 192:
        carried = ipaddress.IPv4Address("192.168.1.1")
    assert address_problem(carried) is not None
    number = int(carried)
    for prefix, shift in (("::ffff:0:0", 0), ("64:ff9b::", 0), ("2002::", 80), ("::", 0)):
        address = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | number << shift)
        assert address_problem(address) is not None, address


@for_each(
    "host",
    [
        *("0x7f000001", "0X7F.1", "017700000001", "2130706433", "127.1", "127.0.1", "1.1", "0177.0.0.1", "127.0.0.1."),
        *("0", "1.2.3.4.5", "example.1", "foo.0x7f", "a..b", "-a.example", "a b", "a/b", "x" * 64 + ".org"),
        *("a." * 130, "", "é"),
    ],
)
def test_an_ambiguous_host_is_refused(host: str) -> None:
    assert host_problem(host) is not None


@for_each("host", ["example.org", "EXAMPLE.org.", "a_b.example", "xn--bcher-kva.example", "1.1.1.1", "::1"])
def test_a_common_name_or_address_is_looked_up(host: str) -> None:
    assert host_problem(host) is None


def test_an_operator_allows_only_the_listed_names_addresses_and_networks() -> None:
    allow = parse_allow(["chat.internal:8443", "Wiki.Internal", "127.0.0.1:9000", "[::1]:9000", "10.1.0.0/16"])
    assert allow.names_host("chat.internal", 8443)
    assert allow.names_host("CHAT.internal.", 8443)
    assert not allow.names_host("chat.internal", 443)
    assert allow.names_host("wiki.internal", 1)
    assert not allow.names_host("evil.wiki.internal", 1)
    for address, port, opened in (
        ("127.0.0.1", 9000, True),
        ("127.0.0.1", 9001, False),
        ("127.0.0.2", 9000, False),
        ("::ffff:127.0.0.1", 9000, True),
        ("::1", 9000, True),
        ("10.1.255.1", 22, True),
        ("10.2.0.1", 22, False),
    ):
        assert allow.has(ipaddress.ip_address(address), port) is opened, (address, port)
    assert not AllowList().has(ipaddress.ip_address("127.0.0.1"), 80)


@for_each("entry", ["127.0.0.1:x", "host:0", "host:70000", "10.0.0.1/8", "[::1", "[::1]x", "a b", "0x7f.1"])
def test_an_unspecific_allow_entry_is_refused(entry: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- each has a sentence of its own
        parse_allow([entry])
