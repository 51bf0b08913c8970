"""Query parameters: only those of the operation, each once, each with a valid value."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.host.errors import InvalidRequest
from bollard.host.http.operations import PAGE, QueryField
from bollard.host.http.queries import check_query, refuse_token

FIELDS = (
    *PAGE,
    QueryField(name="status", summary="", choices=("running", "failed")),
    QueryField(name="follow", summary="", kind="flag"),
    QueryField(name="after", summary="", kind="number"),
    QueryField(name="agent", summary="", most=10),
)


@for_each(
    "query", [b"", b"limit=1", b"limit=100&status=failed", b"follow=true&after=0", b"agent=%E7%8C%AB", b"cursor=x"]
)
def test_a_listed_query_passes(query: bytes) -> None:
    check_query(FIELDS, query)


@for_each(
    ("query", "field", "hint"),
    [
        (b"stauts=failed", "stauts", "did you mean status?"),
        (b"zzz=1", "zzz", "the parameters are after, agent, cursor, follow, limit, status"),
        (b"status=foo", "status", "use one of running, failed"),
        (b"status=", "status", "use one of running, failed"),
        (b"limit=0", "limit", "use 1 to 100"),
        (b"limit=101", "limit", "use 1 to 100"),
        (b"limit=-1", "limit", "send a whole number"),
        (b"limit=%D9%A3", "limit", "send a whole number"),
        (b"limit=9999999999999999", "limit", "send a whole number"),
        (b"limit=1&limit=2", "limit", "send limit once"),
        (b"follow=yes", "follow", "use true or false"),
        (b"agent=", "agent", "leave agent out, or send a value"),
        (b"agent=12345678901", "agent", "leave agent out, or send a value"),
        (b"agent=%00", "agent", "leave agent out, or send a value"),
        (b"ticket=x", "ticket", "the parameters are after, agent, cursor, follow, limit, status"),
        (b"agent=%FF", "query", "send name=value pairs in UTF-8"),
        (b"&".join(b"a=1" for _ in range(100)), "query", "send name=value pairs in UTF-8"),
    ],
)
def test_an_unlisted_query_is_refused_with_a_hint(query: bytes, field: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_query(FIELDS, query)
    assert (refused.value.details["field"], refused.value.hint) == (field, hint)


def test_a_missing_required_parameter_is_refused() -> None:
    needed = (QueryField(name="q", summary="", required=True), *PAGE)
    check_query(needed, b"limit=1&q=x")
    with pytest.raises(InvalidRequest, match="the parameter q is missing"):
        check_query(needed, b"limit=1")


def test_an_operation_without_parameters_refuses_every_parameter() -> None:
    with pytest.raises(InvalidRequest, match="there is no parameter limit"):
        check_query((), b"limit=1")
    check_query((), b"ticket=x", ticket=True)


@for_each(
    "query",
    [
        b"token=abc",
        b"access_token=abc",
        b"API_KEY=x",
        b"x=bollard_abc",
        b"limit=1&q=blk_1_abc",
        b"Authorization=Bearer",
    ],
)
def test_a_token_in_a_url_is_refused_under_any_name(query: bytes) -> None:
    with pytest.raises(InvalidRequest, match="a token does not belong in a URL") as refused:
        refuse_token(query)
    assert "POST /api/v1/tickets" in refused.value.hint


@given(st.binary(max_size=200))
def test_any_query_passes_or_is_refused(query: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        check_query(FIELDS, query)
    with contextlib.suppress(InvalidRequest):
        refuse_token(query)
