"""A webhook route as a person saves it."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.agents.config_form import KEPT
from bollard.host.errors import InvalidRequest
from bollard.host.hooks.hook import Hook

OWN = "a secret of somebody"


def saved(before: Hook | None = None, **more: Any) -> Hook:
    body = {"hook_id": "repo", "verifier": {"kind": "github"}, **more}
    return Hook.read(body).checked(before)


def test_a_route_gets_a_secret_that_is_never_shown_again() -> None:
    hook = saved()
    assert hook.secret is not None
    assert (hook.to_wire()["secret"], hook.secret in repr(hook), "secret" in hook.stored()) == (KEPT, False, False)
    assert saved(hook, **{**hook.to_wire(), "hook_id": "repo"}) == hook
    assert Hook.read(hook.stored()).with_secret(hook.secret) == hook


def test_a_secret_of_ones_own_is_taken_and_replaced_only_by_another() -> None:
    changed = saved(saved(), secret=OWN)
    assert (changed.secret, saved(changed).secret, saved(changed, secret=KEPT).secret) == (OWN, OWN, OWN)
    assert saved(changed, secret=OWN + "!").secret == OWN + "!"


def test_a_standard_route_gets_a_standard_secret() -> None:
    assert (saved(verifier={"kind": "standard"}).secret or "").startswith("whsec_")


def test_a_route_without_its_secret_is_closed() -> None:
    hook = saved()
    assert hook.is_open
    assert not hook.with_secret(None).is_open
    assert not saved(enabled=False).is_open
    assert saved(verifier={"kind": "mtls", "header": "X-C", "value": "CN=a"}).is_open


@for_each(
    ("body", "field"),
    [
        ({"verifier": None}, "verifier"),
        ({"verifier": {}}, "verifier.kind"),
        ({"verifier": {"kind": "none"}}, "verifier.kind"),
        ({"verifier": {"kind": "stripe"}}, "secret"),
        ({"verifier": {"kind": "slack"}}, "secret"),
        ({"verifier": {"kind": "standard"}, "secret": OWN}, "secret"),
        ({"verifier": {"kind": "mtls", "header": "a", "value": "b"}, "secret": OWN}, "secret"),
        ({"secret": "short"}, "secret"),
        ({"secret": " spaces at its ends "}, "secret"),
        ({"secret": "非 ASCII 的密钥也许不行吧真的吗"}, "secret"),
        ({"event": {"text": "{body"}}, "event.text"),
        ({"event": {"text": "{env.HOME}"}}, "event.text"),
        ({"event": {"data": {"a": "{"}}}, "event.data.a"),
        ({"dedupe": "{}"}, "dedupe"),
        ({"answer": {"mode": "fixed", "status": 500}}, "answer.status"),
        ({"answer": {"mode": "wait", "wait_s": 3600}}, "answer.wait_s"),
        ({"answer": {"content_type": "text/html\r\nx: y"}}, "answer.content_type"),
        ({"max_bytes": 10**9}, "max_bytes"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"colour": "red"}, "colour"),
        ({"hook_id": "Not A Name"}, "hook_id"),
    ],
)
def test_a_route_that_cannot_work_is_refused_by_its_field(body: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        saved(**body)
    assert (refused.value.details["field"], bool(refused.value.hint)) == (f"hook.{field}", True)
