"""The redactor finds every form, over every cut, in time that grows with the text only (S24, F38)."""

import base64
import gzip
import html
import json
import random
import time
from urllib.parse import quote, quote_plus

from tests.tables import for_each

from bollard.host.limits import SECRET_GAP_CHARACTERS, SECRET_LEAST_CHARACTERS
from bollard.host.secrets.forms import FormMatcher, Forms, forms_of
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
        "base64 in lines": base64.encodebytes(content * 3).decode(),
        "base64 in lines of Windows": base64.encodebytes(content * 3).decode().replace("\n", "\r\n"),
        "base64 in lines of 64": _in_lines(base64.b64encode(content * 3).decode(), 64, "\n    "),
        "base64 in lines in json": json.dumps(_in_lines(base64.urlsafe_b64encode(content * 3).decode(), 10, "\n"))[
            1:-1
        ],
        "html": html.escape(value),
        "html without quotes": html.escape(value, quote=False),
        "html of Go and Jinja": html.escape(value).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        "html in ASCII": html.escape(value).encode("ascii", "xmlcharrefreplace").decode(),
        "html of hex references": "".join(f"&#x{byte:02x};" for byte in content),
        "every byte for a url": "".join(f"%{byte:02X}" for byte in content),
        "every byte for a url, small": "".join(f"%{byte:02x}" for byte in content),
        "every character of json": "".join(f"\\u{code:04x}" for code in _code_units(value)),
        "every character of json in json": "".join(f"\\\\u{code:04X}" for code in _code_units(value)),
        "json of Gson": _spelled(value, "&'<=>", "\\u{:04x}"),
        "json of .NET": _spelled(value, "\"&'+<>`é秘密的钥匙", "\\u{:04X}"),
        "script of Django": _spelled(value, "\"&'-;<=>\\`", "\\u{:04X}"),
        "url in a url": quote(quote(value, safe=""), safe=""),
        "small url in a url": quote(quote(value, safe="").lower(), safe="") if value.islower() else quote(quote(value)),
        "form in a url": quote(quote_plus(value)),
        "url in a url, with slashes": quote(quote(value)),
        "url in a url of JavaScript": quote(quote(value, safe="!'()*"), safe="!'()*"),
        "every byte for a url in a url": "".join(f"%25{byte:02X}" for byte in content),
        "hex with spaces": content.hex(" "),
        "hex with colons": content.hex(":").upper(),
        "hex in pairs": content.hex(" ", 2),
        "hex with dashes": content.hex("-"),
        "hex as a list": ", ".join(f"0x{byte:02x}" for byte in content),
        "hex as a list without spaces": ",".join(f"0x{byte:02X}" for byte in content),
        "hex as a list of texts": json.dumps([f"0x{byte:02x}" for byte in content], indent=2),
        "hex as in C": "".join(f"\\x{byte:02x}" for byte in content),
        "hex in lines": _in_lines(content.hex(), 16, "\n"),
        "hex in lines in json": json.dumps(_in_lines(content.hex(":"), 15, "\n\t"))[1:-1],
    }


def _in_lines(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


def _spelled(value: str, escaped: str, form: str) -> str:
    return "".join(
        form.format(ord(each)) if each in escaped else json.dumps(each, ensure_ascii=False)[1:-1] for each in value
    )


def _code_units(value: str) -> list[int]:
    wide = value.encode("utf-16-be")
    return [int.from_bytes(wide[at : at + 2]) for at in range(0, len(wide), 2)]


@for_each("value", [VALUE, "plain-token-0123456789", "秘密的钥匙123456", "p@ss!(<word>)~&*it's", "100%-%41%"])
@for_each("shape", shapes(VALUE))
def test_a_secret_is_found_in_every_registered_form(shape: str, value: str) -> None:
    shown = scrubber(value).text(f"before {shapes(value)[shape]} behind")
    assert MARK in shown
    assert shown.startswith("before ")
    assert shown.endswith(" behind")
    # At most the characters stay that base64 shares with its neighbours, and what stands around a text in lines.
    assert len(shown) <= len("before  behind") + 3 * len(MARK) + 14
    for size in (1, 3, 64):
        text = f"before {shapes(value)[shape]} behind"
        stream = scrubber(value).stream()
        in_pieces = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()
        assert in_pieces == shown


def test_a_compressed_secret_is_not_found() -> None:
    content = base64.b64encode(gzip.compress(VALUE.encode() * 3)).decode()
    assert scrubber(VALUE).text(content) == content


def test_a_secret_of_several_lines_is_found_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nMIIabcdefgh\nijklmnopqr\n-----END KEY-----\n"
    made = scrubber(key)
    assert made.text("got MIIabcdefgh here") == f"got {MARK} here"
    assert made.text("-----BEGIN KEY-----") == "-----BEGIN KEY-----"
    assert made.text(json.dumps(key)).count("MII") == 0


def test_a_secret_that_is_too_short_is_not_redacted() -> None:
    made = scrubber("x" * (SECRET_LEAST_CHARACTERS - 1))
    assert not made.active
    assert made.text("xxxxxxxx") == "xxxxxxxx"


def test_a_workspace_redacts_only_its_own_secrets_and_the_log_of_the_host_all() -> None:
    redactor = Redactor()
    redactor.add("north", "north-secret")
    redactor.add("south", "south-secret")
    assert redactor.text("north", "north-secret south-secret") == f"{MARK} south-secret"
    assert redactor.everywhere.text("north-secret south-secret") == f"{MARK} {MARK}"


def test_names_and_values_of_a_document_are_redacted_and_it_stays_a_document() -> None:
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


def test_no_secret_removes_or_hides_in_a_field_name_of_the_host() -> None:
    made = scrubber("sha256", "definition_sha256", "correct_horse_battery_staple", "a_field_that_the_host_has")
    own = {"sha256": "00", "definition_sha256": "11", "a_field_that_the_host_has": 1}
    assert json.loads(made.record(json.dumps(own).encode(), ids=True)) == own
    assert json.loads(made.record(b'{"sha256":"00"}')) == {"sha256": "00"}
    given = json.dumps({"arguments": {"correct_horse_battery_staple": 1}}).encode()
    for ids in (True, False):
        assert json.loads(made.record(given, ids=ids)) == {"arguments": {MARK: 1}}


@for_each("size", [1, 2, 3, 7, 1000])
def test_a_secret_in_pieces_is_removed_and_nothing_else(size: int) -> None:
    made = scrubber(VALUE, "another-secret", "another-secret-that-is-longer")
    for form in (
        *forms_of(VALUE).literal,
        *forms_of(VALUE).hex,
        *forms_of(VALUE).base64,
        "another-secret",
        "another-secret-that-is-longer",
    ):
        text = f"some words {form[: len(form) // 2]} and {form}{form} more {form[:-1]}"
        stream = made.stream()
        shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()
        assert shown == made.text(text)
        assert form not in shown


def test_every_cut_and_every_overlap_gives_the_same_text_as_a_whole() -> None:
    """Short needles over two letters overlap in every way there is."""
    for seed in range(3000):
        rng = random.Random(seed)
        made = Scrubber()
        made.active = True
        needles = {"".join(rng.choices("ab", k=rng.randint(2, 5))) for _ in range(rng.randint(1, 4))}
        matcher = FormMatcher([Forms(literal=frozenset(needles))])
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


def test_a_stream_holds_back_no_more_than_one_form() -> None:
    made = scrubber("aaaaaaaaaa")
    stream, given = made.stream(), 0
    for _ in range(500):
        given += len(stream.feed("a"))
    assert given + len(stream.end()) < 500  # one mark for all that overlaps


@for_each(
    "text",
    [
        "a" * 200_000,
        "(a+)+$" * 30_000,
        "aaaaaaaaab" * 20_000,
        "\\" * 200_000,
        ("a" * 31 + "b") * 6000,
        "6 " * 100_000,
        "0x61, " * 33_000,
        ("YWFh\n" * 9 + "!") * 4000,
    ],
    ids=["one letter", "a pattern", "almost", "escapes", "prefixes", "digits", "hex", "base64"],
)
def test_the_redactor_takes_linear_time(text: str) -> None:
    """The time per character is held against that of an innocent text, so that a busy machine makes both slower."""
    made = scrubber("a" * 32, "(a+)+$(a+)+$", *(f"token-{number}-abcdef" for number in range(20)))
    matcher = made.matcher
    innocent = "the quick brown fox " * (len(text) // 20)

    def best(given: str) -> float:
        times: list[float] = []
        for _ in range(3):
            begun = time.thread_time()
            matcher.literal.scan(given)
            for folded in matcher.folded:
                folded.find(given)
                folded.scan(given)
            times.append(time.thread_time() - begun)
        return min(times)

    assert best(text) < 20 * best(innocent) + 0.05


def test_digits_far_apart_are_not_a_secret_and_not_held_back() -> None:
    made = scrubber(VALUE)
    near, far = " " * SECRET_GAP_CHARACTERS, " " * (SECRET_GAP_CHARACTERS + 1)
    digits = VALUE.encode().hex()
    assert made.text(f"<{near.join(digits)}>") == f"<{MARK}>"
    assert made.text(f"<{far.join(digits)}>") == f"<{far.join(digits)}>"
    stream = made.stream()
    assert stream.feed(digits[:10] + far) == digits[:10] + far
    endless = made.stream()
    assert sum(len(endless.feed(digits[0] + " ")) for _ in range(5000)) > 5000


def test_a_record_with_a_secret_in_lines_is_redacted() -> None:
    lines = base64.encodebytes(b"x" * 50 + VALUE.encode() + b"y" * 20).decode()
    shown = scrubber(VALUE).record(json.dumps({"output": lines}).encode())
    assert MARK in json.loads(shown)["output"]


@for_each("size", [1, 3, 7, 64, 10_000])
@for_each("value", ["correct horse battery staple", "密码是正确的马电池订书钉"])
def test_a_secret_in_content_is_found_at_every_cut(size: int, value: str) -> None:
    redactor = Redactor()
    redactor.add("w", value)
    scrubber = redactor.scrubber("w")
    encoded = base64.b64encode(value.encode()).decode()
    for secret in (value, encoded, f"{encoded[:9]}\n{encoded[9:]}", value.encode().hex(":")):
        content = b"\xff\x00" * 20 + secret.encode() + b"\xe5" * 20
        assert scrubber.holds_among(content[at : at + size] for at in range(0, len(content), size))
        without = content.replace(secret.encode()[4:6], b"")
        assert not scrubber.holds_among(without[at : at + size] for at in range(0, len(without), size))
    assert not redactor.scrubber("other").holds_among([value.encode()])
