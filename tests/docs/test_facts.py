"""Facts that pages repeat are those of the code."""

import re
from typing import Any, get_args

from tests.docs.pages import every_page

from bollard.host.agents.binding import FIELDS
from bollard.host.agents.policies import ConcurrencyMode
from bollard.protocol import METHODS, limits
from bollard.runtime import RULES
from bollard.sdk.testing.steering import SteeringStatus
from bollard.wire import limits as wire_limits
from bollard.wire.process import ENVIRONMENT_ALLOWED


def _section(page: Any, title: str) -> str:
    return page.prose.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_notifications_match_the_protocol(pages: dict[str, Any]) -> None:
    page = pages["docs/decisions/0002-notifications-and-requests-of-the-worker-connection.md"]
    decided = _section(page, "Decision").split("Every other")[0]
    assert set(re.findall(r"`([a-z]+(?:/[a-z]+)?)`", decided)) == {
        name for name, method in METHODS.items() if method.result is None
    }


def test_the_variables_of_a_worker_match_the_code(pages: dict[str, Any]) -> None:
    decided = _section(pages["docs/decisions/0014-the-environment-of-a-worker.md"], "Decision").split("A manifest may")[
        0
    ]
    assert set(re.findall(r"`([A-Z_]+)`", decided)) == ENVIRONMENT_ALLOWED


def test_the_numbers_of_the_connection_match_its_limits(pages: dict[str, Any]) -> None:
    prose = " ".join(pages["docs/concepts/the-channel.md"].prose.split())
    mib = limits.MIB
    for sentence in (
        f"at most {limits.FRAME_BYTES // mib} MiB, nesting {limits.FRAME_DEPTH}",
        f"{limits.FRAME_NODES // 1000} 000 values",
        f"keys of {limits.KEY_CHARACTERS} characters",
        f"may have {limits.WINDOW_RESULTS} results and {limits.WINDOW_BYTES // mib} MiB",
        f"After {limits.CANCEL_GRACE_S:g} s the worker answers",
    ):
        assert sentence in prose, sentence


def test_the_numbers_of_the_decisions_match_the_code(pages: dict[str, Any]) -> None:
    flush = pages["docs/decisions/0004-a-fast-path-for-text-deltas.md"].prose
    assert f"{wire_limits.WRITE_FLUSH_BYTES // limits.KIB} KiB (`WRITE_FLUSH_BYTES`)" in flush
    streams = " ".join(pages["docs/decisions/0006-a-stream-has-the-same-window-as-a-run.md"].prose.split())
    assert f"{limits.STREAM_WINDOW_CHUNKS} chunks (`STREAM_WINDOW_CHUNKS`)" in streams
    assert f"{limits.STREAM_WINDOW_BYTES // limits.MIB} MiB (`STREAM_WINDOW_BYTES`)" in streams
    assert limits.STREAM_WINDOW_CHUNKS == limits.WINDOW_RESULTS
    assert limits.STREAM_WINDOW_BYTES == limits.WINDOW_BYTES


@every_page
def test_every_rule_named_by_a_page_exists(page: Any) -> None:
    named = set(re.findall(r"\bPL\d\d\b", page.prose))
    assert named <= set(RULES), named - set(RULES)


def test_the_number_of_steering_messages_matches_its_limit(pages: dict[str, Any]) -> None:
    prose = " ".join(pages["docs/concepts/steering.md"].prose.split())
    assert f"A run takes at most {limits.STEERING_QUEUE} messages that it has not read" in prose


def test_every_mode_for_a_message_during_a_run_is_listed(pages: dict[str, Any]) -> None:
    section = _section(pages["docs/concepts/runs.md"], "One conversation, one run at a time")
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(get_args(ConcurrencyMode))


def test_every_record_of_steering_is_listed(pages: dict[str, Any]) -> None:
    section = _section(pages["docs/concepts/steering.md"], "Message states")
    listed = set(re.findall(r"^\| `steering\.(\w+)` \|", section, re.MULTILINE))
    assert listed == set(get_args(SteeringStatus))


def test_the_fields_that_can_be_filtered_are_listed(pages: dict[str, Any]) -> None:
    prose = " ".join(pages["docs/concepts/events-and-bindings.md"].prose.split())
    assert f"Fields that can be filtered: {', '.join(f'`{name}`' for name in FIELDS)}, and `data.<key>`." in prose
