"""What the redactor finds: every form, over every border, in time that grows with the text alone (S24, F38)."""

import base64
import gzip
import json
import random
import time
from urllib.parse import quote, quote_plus

import pytest

from bollard.host.limits import SECRET_LEAST_CHARACTERS
from bollard.host.secrets.forms import forms_of
from bollard.host.secrets.matching import Matcher
from bollard.host.secrets.redactor import MARK, Redactor, Scrubber

VALUE = 'sk-"12/34"+é&=~zz\\end'


def scrubber(*values: str) -> Scrubber:
    made = Scrubber()
    made.add(values)
    return made


def shapes(value: str) -> dict[str, str]:
    content = value.encode()
    return {
        "plain": value,
        "base64": base64.b64encode(content).decode(),
        "url base64": base64.urlsafe_b64encode(content).decode(),
        "base64 behind one byte": base64.b64encode(b"x" + content + b"yy").decode(),
        "base64 behind two bytes": base64.b64encode(b"xx" + content + b"y").decode(),
        "hex": content.hex(),
        "HEX": content.hex().upper(),
        "url": quote(value, safe=""),
        "url with slashes": quote(value),
        "form": quote_plus(value),
        "url of JavaScript": quote(value, safe="!'()*"),
        "form of JavaScript": quote_plus(value, safe="*").replace("~", "%7E"),
        "address line": quote(value, safe="!$&'()*+,;=:@/?~"),
        "json": json.dumps(value),
        "json as it is": json.dumps(value, ensure_ascii=False),
        "json for pages": json.dumps(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        "json in json": json.dumps(json.dumps(value)),
        "repr": repr(value),
        "repr of bytes": repr(content),
    }


@pytest.mark.parametrize("value", [VALUE, "plain-token-0123456789", "秘密的钥匙123456", "p@ss!(<word>)~&*it's"])
@pytest.mark.parametrize("shape", shapes(VALUE))
def test_a_secret_is_found_in_every_form_that_it_was_registered_in(shape: str, value: str) -> None:
    shown = scrubber(value).text(f"before {shapes(value)[shape]} behind")
    assert MARK in shown
    assert shown.startswith("before ")
    assert shown.endswith(" behind")
    # At most the characters that base64 shares with its neighbours stay.
    assert len(shown) <= len("before  behind") + len(MARK) + 10


def test_what_was_compressed_is_not_found_and_nobody_says_so() -> None:
    content = base64.b64encode(gzip.compress(VALUE.encode() * 3)).decode()
    assert scrubber(VALUE).text(content) == content


def test_a_secret_of_several_lines_is_found_line_by_line_without_its_borders() -> None:
    key = "-----BEGIN KEY-----\nMIIabcdefgh\nijklmnopqr\n-----END KEY-----\n"
    made = scrubber(key)
    assert made.text("got MIIabcdefgh here") == f"got {MARK} here"
    assert made.text("-----BEGIN KEY-----") == "-----BEGIN KEY-----"
    assert made.text(json.dumps(key)).count("MII") == 0


def test_what_is_too_short_is_a_word_and_stays() -> None:
    made = scrubber("x" * (SECRET_LEAST_CHARACTERS - 1))
    assert not made.active
    assert made.text("xxxxxxxx") == "xxxxxxxx"


def test_a_workspace_does_not_hide_the_secrets_of_another_but_the_hosts_log_hides_all() -> None:
    redactor = Redactor()
    redactor.add("north", "north-secret")
    redactor.add("south", "south-secret")
    assert redactor.text("north", "north-secret south-secret") == f"{MARK} south-secret"
    assert redactor.everywhere.text("north-secret south-secret") == f"{MARK} {MARK}"


def test_names_and_values_of_a_document_are_looked_at_and_it_stays_a_document() -> None:
    made = scrubber(VALUE)
    document = {VALUE: [1, None, {"a": f"<{VALUE}>"}], "other": True}
    shown = {MARK: [1, None, {"a": f"<{MARK}>"}], "other": True}
    assert made.value(document) == shown
    assert json.loads(made.record(json.dumps(document).encode())) == shown
    untouched = b'{"a": [1, 2]}'
    assert made.record(untouched) is untouched


def test_a_secret_that_is_a_word_of_the_protocol_breaks_no_record() -> None:
    made = scrubber("completed", "message", "abcdef", "a" * 64)
    digest = "0123456789abcdef" * 4
    record = {"message": {"role": "assistant", "content": "completed abcdef"}, "status": "completed", "sha256": digest}
    shown = json.loads(made.record(json.dumps(record).encode(), frozenset({"completed"})))
    assert shown == {**record, "message": {"role": "assistant", "content": f"{MARK} {MARK}"}}
    assert json.loads(made.record(json.dumps({"key": "a" * 64}).encode())) == {"key": MARK}
    named = json.dumps({"call_id": "abcdef-1", "value": {"call_id": "abcdef-1"}}).encode()
    assert json.loads(made.record(named, ids=True)) == {"call_id": "abcdef-1", "value": {"call_id": f"{MARK}-1"}}


def test_no_secret_takes_a_field_of_the_hosts_away_or_hides_in_the_name_of_one() -> None:
    made = scrubber("sha256", "definition_sha256", "correct_horse_battery_staple", "a_field_that_the_host_has")
    own = {"sha256": "00", "definition_sha256": "11", "a_field_that_the_host_has": 1}
    assert json.loads(made.record(json.dumps(own).encode(), ids=True)) == own
    assert json.loads(made.record(b'{"sha256":"00"}')) == {"sha256": "00"}
    given = json.dumps({"arguments": {"correct_horse_battery_staple": 1}}).encode()
    for ids in (True, False):
        assert json.loads(made.record(given, ids=ids)) == {"arguments": {MARK: 1}}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_secret_that_comes_in_pieces_is_taken_out_and_nothing_else_is(size: int) -> None:
    made = scrubber(VALUE, "another-secret", "another-secret-that-is-longer")
    for form in (*forms_of(VALUE), "another-secret", "another-secret-that-is-longer"):
        text = f"some words {form[: len(form) // 2]} and {form}{form} more {form[:-1]}"
        stream = made.stream()
        shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()
        assert shown == made.text(text)
        assert form not in shown


def test_every_border_and_every_overlap_gives_what_the_whole_text_gives() -> None:
    """Short needles over two letters overlap in every way there is."""
    for seed in range(3000):
        rng = random.Random(seed)
        made = Scrubber()
        made.active = True
        needles = {"".join(rng.choices("ab", k=rng.randint(2, 5))) for _ in range(rng.randint(1, 4))}
        matcher = Matcher(needles)
        made._made = matcher  # pyright: ignore[reportPrivateUsage] -- real needles are longer
        text = "".join(rng.choices("abc", k=rng.randint(0, 24)))
        covered = [False] * len(text)
        for needle in needles:
            for at in range(len(text)):
                if text.startswith(needle, at):
                    covered[at : at + len(needle)] = [True] * len(needle)
        stays = "".join(character for character, gone in zip(text, covered, strict=True) if not gone)
        stream, shown, at = made.stream(), "", 0
        while at < len(text):
            size = rng.randint(1, 4)
            shown += stream.feed(text[at : at + size])
            at += size
        shown += stream.end()
        assert shown == made.text(text), (seed, needles, text)
        assert shown.replace(MARK, "") == stays, (seed, needles, text)


def test_what_a_stream_holds_back_is_never_longer_than_a_form() -> None:
    made = scrubber("aaaaaaaaaa")
    stream, given = made.stream(), 0
    for _ in range(500):
        given += len(stream.feed("a"))
    assert given + len(stream.end()) < 500  # one mark for all that overlaps


@pytest.mark.parametrize(
    "text",
    ["a" * 200_000, "(a+)+$" * 30_000, "aaaaaaaaab" * 20_000, "\\" * 200_000, ("a" * 31 + "b") * 6000],
    ids=["one letter", "a pattern", "almost", "escapes", "prefixes"],
)
def test_no_text_makes_it_slow(text: str) -> None:
    """The time per character is held against that of an innocent text, so that a busy machine makes both slower."""
    made = scrubber("a" * 32, "(a+)+$(a+)+$", *(f"token-{number}-abcdef" for number in range(20)))
    matcher = made.matcher
    innocent = "the quick brown fox " * (len(text) // 20)

    def best(given: str) -> float:
        times: list[float] = []
        for _ in range(3):
            begun = time.thread_time()
            matcher.scan(given)
            times.append(time.thread_time() - begun)
        return min(times)

    assert best(text) < 20 * best(innocent) + 0.05


@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
@pytest.mark.parametrize("value", ["correct horse battery staple", "密码是正确的马电池订书钉"])
def test_a_secret_in_a_content_is_found_wherever_the_content_is_cut(size: int, value: str) -> None:
    redactor = Redactor()
    redactor.add("w", value)
    scrubber = redactor.scrubber("w")
    for secret in (value, base64.b64encode(value.encode()).decode()):
        content = b"\xff\x00" * 20 + secret.encode() + b"\xe5" * 20
        assert scrubber.holds_among(content[at : at + size] for at in range(0, len(content), size))
        without = content.replace(secret.encode()[4:6], b"")
        assert not scrubber.holds_among(without[at : at + size] for at in range(0, len(without), size))
    assert not redactor.scrubber("other").holds_among([value.encode()])
