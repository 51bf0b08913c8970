"""Tickets: single use, one path, a short lifetime, and a bounded number."""

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.errors import Overloaded
from bollard.host.http.auth import tickets
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.identity.caller import installation
from bollard.host.limits import TICKET_S

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
