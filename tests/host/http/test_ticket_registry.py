"""Tickets: single use, one path, a short lifetime, and a bounded number."""

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.errors import Overloaded
from bollard.host.http.auth import renewable_tickets, tickets
from bollard.host.http.auth.renewable_tickets import RenewableTickets
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.identity.caller import installation
from bollard.host.limits import RENEWABLE_TICKET_IDLE_S, RENEWABLE_TICKET_S, TICKET_S

ANN = installation("one")


def test_a_ticket_opens_its_path_once() -> None:
    book = TicketRegistry(ManualClock())
    ticket = book.issue(ANN, "/a")
    assert book.redeem(ticket, "/a") is ANN
    assert book.redeem(ticket, "/a") is None


def test_a_ticket_for_another_path_is_used_up() -> None:
    book = TicketRegistry(ManualClock())
    ticket = book.issue(ANN, "/a")
    assert book.redeem(ticket, "/b") is None
    assert book.redeem(ticket, "/a") is None


def test_a_ticket_lives_for_seconds() -> None:
    clock = ManualClock()
    book = TicketRegistry(clock)
    early, late = book.issue(ANN, "/a"), book.issue(ANN, "/a")
    clock.advance(TICKET_S - 0.001)
    assert book.redeem(early, "/a") is ANN
    clock.advance(0.001)
    assert book.redeem(late, "/a") is None


@for_each("ticket", ["", "tkt_", "tkt_x", "\ud800", "x" * 10_000])
def test_an_invalid_ticket_opens_nothing(ticket: str) -> None:
    book = TicketRegistry(ManualClock())
    book.issue(ANN, "/a")
    assert book.redeem(ticket, "/a") is None


def test_a_full_registry_issues_no_tickets_until_old_ones_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "TICKETS", 3)
    clock = ManualClock()
    book = TicketRegistry(clock)
    for _ in range(3):
        book.issue(ANN, "/a")
    with pytest.raises(Overloaded) as refused:
        book.issue(ANN, "/a")
    assert refused.value.retryable
    clock.advance(TICKET_S)
    assert book.redeem(book.issue(ANN, "/a"), "/a") is ANN


def test_one_caller_cannot_take_all_tickets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "TICKETS_OF_CALLER", 2)
    clock = ManualClock()
    book, bob = TicketRegistry(clock), installation("two")
    first, _ = book.issue(ANN, "/a"), book.issue(ANN, "/a")
    with pytest.raises(Overloaded):
        book.issue(ANN, "/a")
    assert book.redeem(book.issue(bob, "/a"), "/a") is bob
    assert book.redeem(first, "/b") is None  # used up
    book.issue(ANN, "/a")
    with pytest.raises(Overloaded):
        book.issue(ANN, "/a")
    clock.advance(TICKET_S)
    assert book.redeem(book.issue(ANN, "/a"), "/a") is ANN


# --- renewable tickets ---


def test_a_renewable_ticket_opens_its_path_again_and_no_other() -> None:
    book = RenewableTickets(ManualClock())
    ticket = book.issue(ANN, "/a")
    for _ in range(3):
        assert book.enter(ticket, "/a") is ANN
        book.leave(ticket)
    assert book.enter(ticket, "/b") is None
    assert book.enter(ticket, "/a") is ANN


def test_a_renewable_ticket_ends_when_no_stream_was_open_for_too_long() -> None:
    clock = ManualClock()
    book = RenewableTickets(clock)
    unused, used = book.issue(ANN, "/a"), book.issue(ANN, "/a")
    assert book.enter(used, "/a") is ANN
    clock.advance(RENEWABLE_TICKET_IDLE_S)
    assert book.enter(unused, "/a") is None
    assert book.enter(used, "/a") is ANN  # a second stream, while the first is open
    book.leave(used)
    clock.advance(RENEWABLE_TICKET_IDLE_S)
    assert book.enter(used, "/a") is ANN
    book.leave(used)
    book.leave(used)
    clock.advance(RENEWABLE_TICKET_IDLE_S)
    assert book.enter(used, "/a") is None


def test_a_renewable_ticket_has_a_lifetime_although_it_is_used() -> None:
    clock = ManualClock()
    book = RenewableTickets(clock)
    ticket = book.issue(ANN, "/a")
    assert book.enter(ticket, "/a") is ANN
    clock.advance(RENEWABLE_TICKET_S)
    assert book.enter(ticket, "/a") is None


def test_a_caller_has_a_bounded_number_of_renewable_tickets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewable_tickets, "RENEWABLE_TICKETS_OF_CALLER", 2)
    monkeypatch.setattr(renewable_tickets, "RENEWABLE_TICKETS", 3)
    clock = ManualClock()
    book = RenewableTickets(clock)
    for _ in range(2):
        book.issue(ANN, "/a")
    with pytest.raises(Overloaded):
        book.issue(ANN, "/a")
    book.issue(installation("two"), "/a")
    with pytest.raises(Overloaded):
        book.issue(installation("three"), "/a")
    clock.advance(RENEWABLE_TICKET_IDLE_S)
    assert book.enter(book.issue(ANN, "/a"), "/a") is ANN
