"""The names that a plugin's workers may reach."""

from tests.tables import for_each

from bollard.host.egress.network_consent import NetworkConsent

NAMES = ("api.example.org", "*.cdn.example.org", "db.example.org:5432", "192.0.2.7:9000")


@for_each(
    ("host", "port", "admitted"),
    [
        ("api.example.org", 443, True),
        ("API.Example.org.", 80, True),
        ("api.example.org", 8443, False),
        ("x.api.example.org", 443, False),
        ("example.org", 443, False),
        ("a.cdn.example.org", 443, True),
        ("a.b.cdn.example.org", 80, True),
        ("cdn.example.org", 443, False),
        ("evilcdn.example.org", 443, False),
        ("db.example.org", 5432, True),
        ("db.example.org", 443, False),
        ("192.0.2.7", 9000, True),
        ("api.example.org.evil.org", 443, False),
        ("", 443, False),
    ],
)
def test_a_list_admits_its_names_on_their_ports(host: str, port: int, admitted: bool) -> None:
    assert NetworkConsent.of(NAMES).admits(host, port) is admitted


def test_none_admits_nothing_and_open_everything() -> None:
    assert not NetworkConsent.of("none").admits("api.example.org", 443)
    assert not NetworkConsent().admits("api.example.org", 443)
    assert NetworkConsent.of("open").admits("anything.example", 12345)
