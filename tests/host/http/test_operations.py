"""The list of operations: complete, unambiguous, and the same as the one of a host."""

import asyncio
import re
from collections import Counter
from pathlib import Path

from tests.tables import for_each

from bollard.host.api import RESOURCES, operations
from bollard.host.app import Host
from bollard.host.http.answers import STATUS
from bollard.host.http.operations import Operation
from bollard.host.identity.caller import RIGHTS
from bollard.host.settings import Settings

ALL = operations()
NO_RIGHT = {
    "issueTicket",
    "showSession",
    "endSession",
    "endOtherSession",
    "listSessions",
    "issueSessionTicket",
    "changePassword",
    "getOpenApi",
    "makeLinkCode",
    "redeemLinkCode",
}
"""Operations for every token: they concern only the caller, or are the same for all."""

OWN_ERRORS = {"getReadiness", "serveRunOverMcp", "serveAgentsOverMcp"}
"""Whose refusals have another shape, beside that of all: readiness, and JSON-RPC."""


def test_no_two_operations_share_a_name_or_a_path() -> None:
    for count in (Counter(each.name for each in ALL), Counter((each.method, each.path) for each in ALL)):
        assert [key for key, number in count.items() if number > 1] == []


@for_each("operation", ALL, ids=[each.name for each in ALL])
def test_every_operation_has_a_complete_declaration(operation: Operation) -> None:
    assert re.fullmatch(r"[a-z]+[A-Za-z]+", operation.name)
    assert operation.summary.endswith(".")
    assert operation.tag
    assert operation.answers
    assert operation.right is None or operation.right in RIGHTS
    assert operation.right is not None or operation.open or operation.name in NO_RIGHT
    assert not (operation.open and operation.right is not None)
    assert set(operation.errors) <= set(STATUS)
    assert operation.method not in ("GET", "DELETE") or operation.body is None
    assert len({field.name for field in operation.query}) == len(operation.query)
    for status in operation.answers:
        assert 100 <= status < 400 or operation.name in OWN_ERRORS


def test_every_post_can_be_repeated() -> None:
    """By its kept answer, or because the operation knows its repeats by the event or the file they lead to."""
    own = {each.name for each in ALL if each.method == "POST" and each.repeat == "own"}
    assert own == {
        "createRun",
        "steerRun",
        "postEvent",
        "postChannelEvent",
        "addChannelArtifact",
        "beginChannelUpload",
        "receiveHook",
        "beginSession",
        "beginSessionWithTicket",
        "serveAgentsOverMcp",
    }


def test_a_list_has_a_limit_and_a_cursor() -> None:
    for each in ALL:
        names = {field.name for field in each.query}
        assert "cursor" not in names or "limit" in names, each.name
        assert not each.name.startswith("list") or "cursor" in names, each.name


def test_a_host_serves_exactly_the_listed_resources(tmp_path: Path) -> None:
    async def resources() -> set[type]:
        host = Host(Settings(data=tmp_path / "data", builtin_plugins=False, port=0, grace_s=0, journal="thread"))
        await host.start()
        try:
            return {type(resource) for resource in host.resources()}
        finally:
            await host.stop()

    assert asyncio.run(resources()) == set(RESOURCES)
