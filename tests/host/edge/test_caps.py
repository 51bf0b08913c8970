"""Limits of connections, of connections per address, and of requests per identity."""

from typing import Any

from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.errors import HostError
from bollard.host.exposure import client_network
from bollard.host.http.answers import error_answer
from bollard.host.http.edge import TrustedProxies
from bollard.host.http.rates import ConcurrencyLimit, IdentityRates, identity_rates, stranger_rates
from bollard.host.http.server.server import connection_limit


def test_the_connection_that_was_idle_longest_makes_room(start: Any) -> None:
    server = start(connections=3)
    first, second, third = server.wire(), server.wire(), server.wire()
    for wire in (first, second, third):
        assert wire.get("/a").status == 200
    fourth = server.wire()
    assert fourth.get("/b").status == 200
    assert first.ended()
    assert second.get("/c").status == 200


def test_idle_connections_make_room_for_active_ones(start: Any) -> None:
    server = start(connections=50)
    silent = [server.wire() for _ in range(200)]
    assert server.wire().get("/good").status == 200
    assert silent[0].ended()
    server.until(lambda: server.open <= 50)


def test_when_all_connections_are_active_a_new_one_gets_a_retry_time(start: Any) -> None:
    server = start(connections=3)
    streams = [server.wire() for _ in range(3)]
    for wire in streams:
        assert wire.get("/stream").status == 200
    late = server.wire()
    answer = late.answer()
    assert answer is not None
    assert (answer.status, answer.code, answer.all("retry-after")) == (503, "too_many_connections", ["1"])
    assert late.ended()
    streams[0].close()
    server.until(lambda: server.open == 2)
    assert server.wire().get("/again").status == 200


def test_one_address_cannot_take_every_connection(start: Any) -> None:
    server = start(connections=100, connections_per_address=2)
    greedy = [server.wire(source="127.0.0.2") for _ in range(3)]
    answer = greedy[2].answer()
    assert answer is not None
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert greedy[0].get("/a").status == 200
    assert server.wire(source="127.0.0.3").get("/b").status == 200
    for number in range(5):  # this machine itself is not counted
        assert server.wire().get(f"/{number}").status == 200


def test_the_connections_of_a_trusted_proxy_are_not_counted_as_one_client(start: Any) -> None:
    server = start(connections_per_address=2, trusted_proxies=("127.0.0.2",))
    wires = [server.wire(source="127.0.0.2") for _ in range(5)]
    assert wires[4].get("/a", "X-Forwarded-For: 1.2.3.4, 203.0.113.7").json["client"] == ["203.0.113.7", 0]
    assert wires[4].get("/a", "X-Forwarded-Proto: https").json["scheme"] == "https"
    lied = server.wire(source="127.0.0.3").get("/a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: https")
    assert (lied.json["client"][0], lied.json["scheme"]) == ("127.0.0.3", "http")


@for_each(
    ("header", "client"),
    [
        (b"203.0.113.7", "203.0.113.7"),
        (b"6.6.6.6, 203.0.113.7, 10.0.0.9", "203.0.113.7"),
        (b"203.0.113.7, nonsense", None),
        (b"10.0.0.1, 10.0.0.2", None),
        (b"", None),
        (b"2001:db8::1", "2001:db8::1"),
    ],
)
def test_a_trusted_proxy_names_the_last_address_before_it(header: bytes, client: str | None) -> None:
    proxies = TrustedProxies(("10.0.0.0/8",))
    assert "10.1.2.3" in proxies
    assert "11.1.2.3" not in proxies
    assert "nonsense" not in proxies
    assert proxies.forwarded([(b"x-forwarded-for", header)])[0] == client


@for_each(
    ("address", "counted"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_all_ipv6_addresses_of_a_network_count_as_one(address: str, counted: str) -> None:
    assert client_network(address) == counted


def test_the_connections_are_never_more_than_the_open_files_allow() -> None:
    assert connection_limit(10) == 10
    assert connection_limit(10**9) < 10**9


def test_an_identity_above_its_rate_gets_a_retry_time() -> None:
    clock = ManualClock()
    rates = IdentityRates(clock, per_minute=60, burst=2)
    assert rates.take("a") is None
    assert rates.take("a") is None
    refused = rates.take("a")
    assert isinstance(refused, HostError)
    assert rates.take("b") is None  # another one has its own
    answer = error_answer(refused)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["ratelimit-policy"] == '"identity";q=60;w=60'
    assert answer.headers["ratelimit"] == '"identity";r=0;t=1'
    clock.advance(float(str(refused.details["retry_after_s"])) + 0.001)
    assert rates.take("a") is None


def test_the_rates_of_the_settings_let_a_burst_through() -> None:
    clock = ManualClock()
    rates = identity_rates(clock, 6)
    assert rates.take("a") is None
    assert rates.take("a") is not None
    strangers = stranger_rates(clock)
    assert [strangers.take("192.0.2.1") for _ in range(300)] == [None] * 300
    refused = strangers.take("192.0.2.1")
    assert refused is not None
    assert error_answer(refused).headers["ratelimit-policy"] == '"address";q=600;w=60'
    assert strangers.take("192.0.2.2") is None


def test_an_identity_has_a_limit_of_open_requests() -> None:
    open_now = ConcurrencyLimit(2)
    assert open_now.enter("a") is None
    assert open_now.enter("a") is None
    refused = open_now.enter("a")
    assert refused is not None
    assert error_answer(refused).status_code == 429
    assert open_now.enter("b") is None
    open_now.leave("a")
    assert open_now.enter("a") is None
    for name in ("a", "a", "b"):
        open_now.leave(name)
    assert open_now.names == 0
