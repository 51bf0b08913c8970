"""A channel as a person saves it."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.agents.config_form import KEPT
from bollard.host.channels.channel import SavedChannel
from bollard.host.errors import InvalidRequest


def saved(**more: Any) -> Any:
    return SavedChannel.read({"channel_id": "chat", **more}).checked(None)


def test_a_channel_gets_a_secret_that_is_never_shown_again() -> None:
    channel = saved(url="http://127.0.0.1:9/")
    assert channel.secret.startswith("whsec_")
    shown = channel.to_wire()
    assert (shown["secret"], channel.secret in repr(channel)) == (KEPT, False)
    assert SavedChannel.read(shown).checked(channel) == channel


def test_a_given_secret_is_used_until_another_one_replaces_it() -> None:
    first, own = saved(), "whsec_" + "QUJD" * 10
    changed = SavedChannel.read({"channel_id": "chat", "secret": own}).checked(first)
    assert (changed.secret, SavedChannel.read({"channel_id": "chat"}).checked(changed).secret) == (own, own)


def test_a_channel_is_read_back_from_the_store_without_its_secret() -> None:
    channel = saved(url="https://example.org/x", bot="b", abilities={"dedupe": "native", "max_message_size": 99})
    assert "secret" not in channel.stored()
    assert SavedChannel.read(channel.stored()).with_secret(channel.secret) == channel


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "http://localhost/x", "http://[::1]:80/", "https://a.example/"]
)
def test_a_valid_url_is_accepted(url: str) -> None:
    assert saved(url=url).url == url


@for_each(
    ("body", "field"),
    [
        ({"url": "http://example.org/"}, "url"),
        ({"url": "http://10.0.0.1/"}, "url"),
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"url": "https://user:pass@example.org/"}, "url"),
        ({"url": "https://example.org/#x"}, "url"),
        ({"url": "https://example.org/a b"}, "url"),
        ({"url": "not a url"}, "url"),
        ({"secret": "short"}, "secret"),
        ({"kind": "smoke"}, "kind"),
        ({"abilities": {"supports_streaming": True}}, "abilities.supports_streaming"),
        ({"abilities": {"edits_per_s": 0}}, "abilities.edits_per_s"),
        ({"abilities": {"max_message_size": 1}}, "abilities.max_message_size"),
        ({"colour": "red"}, "colour"),
        ({"channel_id": "user"}, "channel_id"),
        ({"channel_id": "role"}, "channel_id"),
        ({"channel_id": "key"}, "channel_id"),
        ({"channel_id": "api"}, "channel_id"),
    ],
)
def test_an_invalid_channel_is_refused_by_its_field(body: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        saved(**body)
    assert (refused.value.details["field"], bool(refused.value.hint)) == (f"channel.{field}", True)
