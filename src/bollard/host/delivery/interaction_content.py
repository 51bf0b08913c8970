"""The content of an interaction: lines, buttons or a form where the channel has them, otherwise a text. Pure.

An approval without buttons is a text with a command and, if the host knows its address, a link: a message never decides
one. The content filter of the channel applies to questions and answers. It changes no approval, because a person
decides about the call as it is.
"""

from typing import Final, Literal

import msgspec

from bollard.host.approvals.approval import DECISIONS, Approval
from bollard.host.approvals.display import Display, display
from bollard.host.channels.channel import Abilities
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.channels.outgoing_filter import screened
from bollard.host.log.records import InteractionRoute
from bollard.host.store.rows import RecordRow
from bollard.host.texts import Locale, read_texts
from bollard.protocol import JsonObject, JsonValue

WORDS: Final = read_texts("interactions")
_STYLES: Final = {"allow_once": "primary", "allow_run": "default", "deny": "danger", "deny_stop": "danger"}
INTERACTION_RECORDS: Final = frozenset(
    {
        "approval.requested",
        "approval.granted",
        "approval.denied",
        "approval.expired",
        "question.asked",
        "question.answered",
        "question.expired",
    }
)
OPENING: Final = frozenset({"approval.requested", "question.asked"})


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel can show and may show, in which language, and where the host can be reached."""

    abilities: Abilities
    locale: Locale
    filter_out: ContentFilter | None = None
    address: str | None = None

    def word(self, key: str, **fields: str | int) -> str:
        return WORDS[self.locale][key].format_map(fields)


class InteractionContent(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. Without a `card` its text is sent as a message; without a text nothing is sent."""

    operation: Literal["interaction", "interaction_update"]
    text: str
    card: JsonObject | None = None


class _Question(msgspec.Struct):
    question: str
    choices: list[str] = []
    interaction: InteractionRoute | None = None


class _Closed(msgspec.Struct):
    """The data of a record that closes an interaction."""

    interaction: InteractionRoute
    by: str | None = None
    decision: str | None = None
    answer: str | None = None
    reason: str | None = None


_approval: Final = msgspec.json.Decoder(Approval).decode
_question: Final = msgspec.json.Decoder(_Question).decode
_closed: Final = msgspec.json.Decoder(_Closed).decode


def route_in(data: bytes) -> InteractionRoute:
    """The route of a record that closes an interaction."""
    return _closed(data).interaction


def requested_approval(record: RecordRow) -> Approval | None:
    """The approval that a record requests; `None` for any other record."""
    return _approval(record.data or b"{}") if record.type == "approval.requested" else None


def opened_content(record: RecordRow, surface: Surface) -> InteractionContent:
    """The operation that shows an approval or a question."""
    data = record.data or b"{}"
    return (
        _requested(_approval(data), surface)
        if record.type == "approval.requested"
        else _asked(_question(data), surface)
    )


def closed_content(record: RecordRow, opened: RecordRow, surface: Surface) -> InteractionContent:
    """The operation that shows the outcome. Where a question was a plain message, its outcome is not sent."""
    closed = _closed(record.data or b"{}")
    if closed.answer is not None:
        closed = msgspec.structs.replace(closed, answer=screened(surface, closed.answer).text)
    kind, _, outcome = record.type.partition(".")
    if kind == "approval":
        name = _approval(opened.data or b"{}").name
        text = surface.word(f"closed.{outcome}", name=name, by=closed.by or "")
    else:
        answered = closed.answer is not None
        text = (
            surface.word("closed.answered", answer=closed.answer or "")
            if answered
            else surface.word("closed.withdrawn")
        )
    if opened_content(opened, surface).card is None:
        return InteractionContent(operation="interaction_update", text=text if kind == "approval" else "")
    card: JsonObject = {"id": closed.interaction.id, "kind": kind, "outcome": outcome, "text": text}
    for field in ("by", "decision", "answer", "reason"):
        if (value := getattr(closed, field)) is not None:
            card[field] = value
    return InteractionContent(operation="interaction_update", text=text, card=card)


# --- approvals ---


def approval_buttons(shown: Display) -> tuple[str, ...]:
    """The decisions that a click can make. A call with attached content is allowed only by a person who opened it."""
    return tuple(each for each in DECISIONS if not shown.attached or each.startswith("deny"))


def _requested(approval: Approval, surface: Surface) -> InteractionContent:
    shown = display(approval, surface.locale)
    command = f"bollard approvals show {approval.approval_id}"
    fallback: JsonObject = {"command": command}
    hints = [surface.word("approval.decide", command=command)]
    if surface.address is not None:
        url = f"{surface.address}/approvals?approval={approval.approval_id}"
        fallback["url"] = url
        hints.append(surface.word("link", url=url))
    lines = [f"{line.place if line.part == 'arguments' else line.label} | {line.text}" for line in shown.lines]
    text = "\n".join([surface.word("approval.head", name=approval.name), *lines, *hints])
    if not surface.abilities.supports_buttons or approval.interaction is None:
        return InteractionContent(operation="interaction", text=text)
    card: JsonObject = {
        "id": approval.interaction.id,
        "kind": "approval",
        "lines": [line.to_wire() for line in shown.lines],
        "buttons": [_button(each, surface.word(f"button.{each}"), _STYLES[each]) for each in approval_buttons(shown)],
        "fallback": fallback,
        "expires_at": approval.expires_ms / 1000,
    }
    if shown.attached:
        card["notice"] = surface.word("approval.attached")
    return InteractionContent(operation="interaction", text=text, card=card)


# --- questions ---


def _asked(question: _Question, surface: Surface) -> InteractionContent:
    """A question that the filter blocks is a sentence that says so, without buttons."""
    words = [screened(surface, each) for each in (question.question, *question.choices)]
    if withheld := next((each.text for each in words if each.withheld), None):
        return InteractionContent(operation="interaction", text=withheld)
    asked, *choices = (each.text for each in words)
    numbered = [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
    hint = [surface.word("question.choices")] if numbered else []
    text = "\n".join([asked, *numbered, *hint])
    has_buttons = surface.abilities.supports_buttons and bool(choices)
    has_form = surface.abilities.supports_forms and not choices
    if question.interaction is None or not (has_buttons or has_form):
        return InteractionContent(operation="interaction", text=text)
    card: JsonObject = {
        "id": question.interaction.id,
        "kind": "question",
        "lines": [{"part": "question", "place": "question", "label": "", "text": asked}],
        "buttons": [_button(str(number), choice, "default") for number, choice in enumerate(choices, 1)],
    }
    if has_form:
        card["form"] = {"fields": [{"name": "answer", "type": "text", "label": surface.word("form.answer")}]}
    return InteractionContent(operation="interaction", text=text, card=card)


def _button(button_id: str, label: str, style: str) -> JsonValue:
    return {"id": button_id, "label": label, "style": style}
