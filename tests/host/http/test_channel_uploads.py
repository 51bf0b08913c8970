"""Uploads of a channel: files for its next events, with its own signature, and nothing else with it."""

import hashlib
import json
import time
from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.host.http.test_uploads import said
from tests.tables import for_each

from bollard.host.api import operations
from bollard.host.channels.signing import secret_bytes, sign

AGENT = "workshop.carrier"
TEXT = b"quarter,revenue\n1,12\n"
READ = f"notes.txt {len(TEXT)}: {TEXT.decode()}"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
_rooms = count()


class Channel:
    """The program behind a channel of a host."""

    def __init__(self, shop: Any, name: str, **more: Any) -> None:
        self.shop, self.name = shop, name
        self.secret = shop.put(f"/api/v1/channels/{name}", more).json["secret"]
        shop.put(f"/api/v1/bindings/{name}", {"agent_id": AGENT, "scope": {"channel": name}})

    def signed(self, method: str, path: str, body: bytes | None = None, *, signs: str = "", **more: Any) -> Any:
        """A request below the channel whose method, path and query are signed."""
        path = f"/api/v1/channels/{self.name}{path}"
        headers = sign(secret_bytes(self.secret), "f", int(time.time()), (signs or f"{method} {path}").encode())
        return self.shop.send(method, path, body, token=None, **_named(headers), **more)

    def upload(self, content: bytes = TEXT, **facts: Any) -> Any:
        return self.signed("POST", f"/artifacts?{query(self.name, content, **facts)}", content)

    def begin(self, content: bytes = TEXT, **facts: Any) -> str:
        begun = self.signed("POST", f"/uploads?{query(self.name, content, **{'size_bytes': len(content), **facts})}")
        assert begun.status == 201, begun.body
        return begun.json["upload_id"]

    def event(self, number: str, **body: Any) -> Any:
        sent = json.dumps({"id": number, "conversation": self.name, **body}).encode()
        headers = sign(secret_bytes(self.secret), number, int(time.time()), sent)
        return self.shop.post(f"/api/v1/channels/{self.name}/events", sent, token=None, **_named(headers))

    def attach(self, number: str, artifact_id: str, **more: Any) -> Any:
        attached = [{"artifact_id": artifact_id, "artifact_type": "file"}]
        return self.event(number, **{"text": "read it", "attachments": attached, **more})


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


def query(room: str, content: bytes, **facts: Any) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    given = {"conversation": room, "name": "notes.txt", "mime_type": "text/plain", "sha256": sha256, **facts}
    return urlencode({name: value for name, value in given.items() if value is not None})


@pytest.fixture
def channel(shop: Any) -> Channel:
    return Channel(shop, f"sender-{next(_rooms)}")


def test_an_event_attaches_a_file_that_its_channel_uploaded(shop: Any, channel: Channel) -> None:
    made = channel.upload()
    assert made.status == 201, made.body
    assert channel.upload().json["artifact_id"] == made.json["artifact_id"], "the same file is the same artifact"
    sent = channel.attach("1", made.json["artifact_id"])
    assert sent.status == 202, sent.body
    assert said(shop, sent.json["run_id"]) == [READ]


def test_an_upload_of_a_channel_in_pieces_goes_on_where_it_was_interrupted(shop: Any, channel: Channel) -> None:
    place = f"/uploads/{channel.begin()}"
    assert channel.signed("PATCH", f"{place}?offset=0", TEXT[:7]).json["offset"] == 7
    assert place == f"/uploads/{channel.begin()}", "a repeat of the request gets the same upload"
    assert channel.signed("GET", place).json["offset"] == 7
    early = channel.signed("POST", f"{place}/finish")
    assert (early.status, early.error["details"]["expected"]) == (409, 7)
    hole = channel.signed("PATCH", f"{place}?offset=9", TEXT[9:])
    assert (hole.status, hole.error["details"]["expected"]) == (409, 7)
    assert channel.signed("PATCH", f"{place}?offset=7", TEXT[7:]).json["offset"] == len(TEXT)
    made = channel.signed("POST", f"{place}/finish")
    assert made.status == 201, made.body
    again = channel.signed("POST", f"{place}/finish")
    assert (again.status, again.json["artifact_id"]) == (201, made.json["artifact_id"]), "the answer may be lost"
    assert channel.signed("PATCH", f"{place}?offset=0", TEXT[:7]).status == 404, "it is finished"
    sent = channel.attach("1", made.json["artifact_id"])
    assert said(shop, sent.json["run_id"]) == [READ]


def test_a_channel_cancels_an_upload(channel: Channel) -> None:
    place = f"/uploads/{channel.begin()}"
    assert channel.signed("DELETE", place).json["deleted"] is True
    assert channel.signed("PATCH", f"{place}?offset=0", TEXT).status == 404


def test_a_file_moves_with_its_room_into_a_new_conversation(shop: Any, channel: Channel) -> None:
    """`/new` gives the room another conversation between the upload and the event, and after the event too."""
    first = channel.upload().json["artifact_id"]
    channel.event("new", text="/new", reply_target=channel.name)
    shop.put(f"/api/v1/channels/{channel.name}", {"url": "http://127.0.0.1:9/in"}, if_match="*")
    assert channel.event("new-2", text="/new").json["reason"]["code"] == "command"
    sent = channel.attach("1", first)
    assert sent.status == 202, sent.body
    assert said(shop, sent.json["run_id"]) == [READ]
    event = shop.get(f"/api/v1/events/{sent.json['event_id']}").json
    assert event["conversation_id"] == f"{channel.name}#2"
    again = channel.attach("1", first)
    assert (again.status, again.json["run_id"]) == (200, sent.json["run_id"])
    assert channel.event("new-3", text="/new").status == 202
    later = channel.attach("2", channel.upload().json["artifact_id"])
    assert said(shop, later.json["run_id"]) == [READ], "a file of an earlier conversation is sent again"


def test_a_file_of_a_channel_belongs_to_its_conversation_and_to_the_channel(shop: Any, channel: Channel) -> None:
    made = channel.upload().json["artifact_id"]
    assert channel.attach("1", made, conversation="elsewhere").error["details"]["reason"] == "attachment"
    assert channel.attach("2", made, thread="t").error["details"]["reason"] == "attachment"
    other = Channel(shop, f"{channel.name}-other")
    assert other.attach("3", made, conversation=channel.name).error["details"]["reason"] == "attachment"
    foreign = other.signed("GET", f"/uploads/{channel.begin()}")
    assert foreign.status == 404, "uploads of others do not exist for it"


WRONG = {
    "an empty file": ({"content": b""}, 400, "message_file_empty"),
    "bytes that are no image": ({"mime_type": "image/png"}, 400, "message_file_content"),
    "bytes that are no text": ({"content": PNG}, 400, "message_file_content"),
    "another digest": ({"sha256": "0" * 64}, 409, "digest_differs"),
    "a digest that is none": ({"sha256": "../../etc/passwd"}, 400, "upload_digest"),
    "no digest": ({"sha256": None}, 400, "query_missing"),
    "no conversation": ({"conversation": None}, 400, "query_missing"),
    "a name with a folder": ({"name": "../notes.txt"}, 400, "message_file_name"),
    "a wrong type": ({"mime_type": "text"}, 400, "message_file_type"),
    "an unknown fact": ({"agent": AGENT}, 400, "query_unknown"),
}


@for_each("case", WRONG)
def test_a_bad_file_of_a_channel_is_refused(channel: Channel, case: str) -> None:
    facts, status, reason = WRONG[case]
    answer = channel.upload(**facts)
    assert (answer.status, answer.error["details"]["reason"]) == (status, reason), answer.body


def test_an_upload_of_a_channel_that_lies_becomes_no_artifact(channel: Channel) -> None:
    for facts in ({"sha256": "0" * 64}, {"mime_type": "image/png"}):
        place = f"/uploads/{channel.begin(**facts)}"
        channel.signed("PATCH", f"{place}?offset=0", TEXT)
        assert channel.signed("POST", f"{place}/finish").status in (400, 409)
    place = f"/uploads/{channel.begin()}"
    longer = channel.signed("PATCH", f"{place}?offset=0", TEXT + b"more")
    assert (longer.status, longer.error["details"]["reason"]) == (413, "upload_longer")
    huge = channel.signed("POST", f"/uploads?{query(channel.name, TEXT, size_bytes=10**12)}")
    assert (huge.status, huge.error["details"]["reason"]) == (413, "message_file_too_large")


def test_a_signature_of_a_channel_fits_its_own_request_alone(shop: Any, channel: Channel) -> None:
    stranger = shop.elsewhere(channel.name)
    channel.shop = stranger
    path = f"/artifacts?{query(channel.name, TEXT)}"
    full = f"/api/v1/channels/{channel.name}{path}"
    wrong = [
        f"GET {full}",
        f"POST {full.replace('notes', 'other')}",
        f"POST {full.partition('?')[0]}",
        f"POST {full}&",
        f"post {full}",
        TEXT.decode(),
    ]
    for signs in wrong:
        assert channel.signed("POST", path, TEXT, signs=signs).status == 401, signs
    assert stranger.post(full, TEXT, token=None).status == 401
    assert stranger.post(full, TEXT).status == 401, "a token opens nothing here"


def test_the_credential_of_a_channel_opens_nothing_else(shop: Any, channel: Channel) -> None:
    """The signature of a channel, and its secret as a token, on every other operation."""
    opened = list[str]()
    for each in operations():
        if each.open or each.ticket or each.socket is not None:
            continue
        path = each.path.replace("{channel_id}", channel.name).replace("{", "").replace("}", "")
        headers = _named(sign(secret_bytes(channel.secret), "f", int(time.time()), f"{each.method} {path}".encode()))
        stranger = shop.elsewhere(f"{channel.name}-{each.name}")  # strangers have a rate for each address
        for token in (None, channel.secret):
            answer = stranger.send(each.method, path, None, token=token, **headers)
            of_run = each.run_token and answer.status == 404  # the token of another run opens a run that does not exist
            if answer.status != 401 and not of_run:
                opened.append(each.name)
    assert not opened
