"""`/conversations`: messages by conversation and thread, and the search in them."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.audit.erasure import Eraser
from bollard.host.audit.selection import Selection
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.examples import MESSAGE_EXAMPLE, page_example
from bollard.host.http.openapi.schemas import FLAG, TEXT, fields, maybe
from bollard.host.http.operations import PAGE, Answer, QueryField
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.identity.audience import Audience
from bollard.host.run_api.history import item_of, refs_of
from bollard.host.run_api.pages import filled
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.scope import Scope
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.rows import ConversationRow, TranscriptRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, TranscriptItem
from bollard.segments import Clause, cjk_characters, clauses
from bollard.wire import encode

_LIST: Final = "conversations.list"
ROWS_AT_ONCE: Final = 32
"""Messages that are read into memory at once: each may be large."""
SEARCH_READS: Final = 32
"""Reads of one search. Messages that the caller may not see make a page shorter, not slower."""
SNIPPET_CHARACTERS: Final = 160
TITLE_CHARACTERS: Final = 80
_BEFORE_MATCH: Final = 40
"""Characters of a snippet before the first match."""
_LISTED: Final = answer_body(
    "Conversation",
    {
        "conversation_id": "support-7",
        "thread_id": None,
        "bot_id": None,
        "title": "Is the invoice of March paid?",
        "last_message_at": 1794735485.1,
        "last_seq": 136,
    },
    thread_id=maybe(TEXT),
    bot_id=maybe(TEXT),
)

_FOUND: Final = answer_body(
    "FoundMessage",
    {
        "conversation_id": "support-7",
        "thread_id": None,
        "bot_id": None,
        "transcript_id": "t_136",
        "event_id": "evt_01",
        "run_id": "run_01",
        "role": "assistant",
        "snippet": "… the invoice of March is paid …",
        "seq": 136,
        "created_at": 1794735485.1,
    },
    thread_id=maybe(TEXT),
    bot_id=maybe(TEXT),
    run_id=maybe(TEXT),
)


class _MessagePage(msgspec.Struct, frozen=True):
    items: list[TranscriptItem]
    behind: int | None
    """The position of the next page, if there is one."""


class Conversations(DeclaredResource):
    """Reads the transcript for people and programs."""

    tag = "conversations"

    def __init__(
        self, store: Store, pages: Pages, audience: Audience, eraser: Eraser, schedules: ScheduleRepository
    ) -> None:
        self._store = store
        self._eraser = eraser
        self._schedules = schedules
        self._audience = audience
        self._pages = pages

    @operation(
        "GET /api/v1/conversations",
        name="listConversations",
        summary="List conversations and their threads, newest message first.",
        right="conversations.read",
        query=PAGE,
        answers={200: _LISTED.page("conversations")},
    )
    async def list(self, request: Request) -> Response:
        before = self._pages.numbered(request, _LIST)
        workspace, limit = caller_of(request).workspace, page_limit(request)
        rows = await asyncio.to_thread(self._store.conversations, workspace, before, limit + 1)
        caller, seen = caller_of(request), list[ConversationRow]()
        for row in rows:
            if await self._audience.sees_place(caller, row):
                seen.append(row)
        titles = await asyncio.to_thread(lambda: {row.place: self._title(row) for row in seen})
        return self._pages.of_rows(
            request,
            _LIST,
            rows,
            lambda row: _listed(row, titles[row.place]),
            lambda row: row.last_seq,
            lambda row: row.place in titles,
        )

    @operation(
        "GET /api/v1/conversations/search",
        name="searchConversations",
        summary="Messages of all conversations that contain the words of a text, the newest first.",
        description="A page may be shorter than its limit, or empty, when the caller may not see many of the messages.",
        right="conversations.read",
        query=(
            QueryField(
                name="q",
                summary="The words. A message must contain all of them; operators have no meaning.",
                example="invoice",
                required=True,
            ),
            *PAGE,
        ),
        answers={200: _FOUND.page("messages")},
    )
    async def search(self, request: Request) -> Response:
        text, caller = request.query_params["q"], caller_of(request)
        wanted = clauses(text)
        if not wanted:
            raise InvalidRequest(
                "the search text has no word", reason="search_words", hint="search for letters or digits", field="q"
            )
        purpose = encode(["conversations.search", text]).decode()
        before, limit = self._pages.numbered(request, purpose), page_limit(request)
        found: list[TranscriptRow] = []
        seen: dict[tuple[str | None, ...], bool] = {}
        for _ in range(SEARCH_READS):
            rows = await asyncio.to_thread(self._store.search_workspace, caller.workspace, wanted, before, ROWS_AT_ONCE)
            for row in rows:
                place = (row.bot, row.conversation, row.thread)
                if place not in seen:
                    seen[place] = await self._audience.sees_place(caller, row)
                if seen[place] and len(found) == limit:
                    return self._found_page(request, purpose, found, wanted, behind=found[-1].seq)
                if seen[place]:
                    found.append(row)
                before = row.seq
            if len(rows) < ROWS_AT_ONCE:
                before = None
                break
        return self._found_page(request, purpose, found, wanted, behind=before)

    def _found_page(
        self,
        request: Request,
        purpose: str,
        rows: Sequence[TranscriptRow],
        wanted: Sequence[Clause],
        *,
        behind: int | None,
    ) -> Response:
        match = match_of(wanted)
        return self._pages.answer(request, purpose, [_found(row, match) for row in rows], behind)

    @operation(
        "GET /api/v1/conversations/{conversation_id}/messages",
        name="listMessages",
        summary="List the messages of a conversation or of one of its threads, newest first.",
        description="A page with large messages may be shorter than its limit.",
        right="conversations.read",
        query=(
            *PAGE,
            QueryField(name="thread", summary="The thread; without it, messages outside of threads.", example="t-1"),
            QueryField(name="bot", summary="The bot; without it, messages without a bot.", example="polly"),
        ),
        answers={
            200: Answer(summary="A page of messages.", items=TranscriptItem, example=page_example(MESSAGE_EXAMPLE))
        },
        errors=("not_found",),
    )
    async def messages(self, request: Request) -> Response:
        query = TranscriptQuery(
            workspace=caller_of(request).workspace,
            bot=request.query_params.get("bot"),
            conversation=request.path_params["conversation_id"],
            thread=request.query_params.get("thread"),
            limit=ROWS_AT_ONCE,
        )
        purpose = encode(["conversations.messages", query.bot, query.conversation, query.thread]).decode()
        before = self._pages.numbered(request, purpose)
        page = await asyncio.to_thread(self._page, replace(query, before=before), purpose, page_limit(request))
        if (not page.items and before is None) or not await self._audience.sees_place(caller_of(request), query):
            raise _absent()
        return self._pages.answer(request, purpose, [item.to_wire() for item in page.items], page.behind)

    @operation(
        "DELETE /api/v1/conversations/{conversation_id}",
        name="deleteConversation",
        summary="Delete a conversation with its threads: its records keep their headers and lose their data.",
        description="Also deletes the runs of the conversation with their state, artifacts and the schedules that they "
        "created. It cannot be undone. A conversation with active runs or open deliveries is a `conflict`.",
        right="conversations.write",
        query=(QueryField(name="bot", summary="The bot; without it, a conversation without one.", example="polly"),),
        answers={
            200: Answer(
                summary="The conversation is deleted.",
                schema=fields(conversation_id=TEXT, deleted=FLAG, records={"type": "integer"}),
                example={"conversation_id": "support-7", "deleted": True, "records": 12},
            )
        },
        errors=("not_found", "conflict"),
    )
    async def delete(self, request: Request) -> Response:
        caller, conversation = caller_of(request), request.path_params["conversation_id"]
        bot = request.query_params.get("bot")
        selection = Selection.of_conversation(caller.workspace, bot, conversation)
        survey = await self._eraser.survey(selection)
        place = Scope(workspace=caller.workspace, bot=bot, conversation=conversation)
        if not selection.events or not await self._audience.sees_place(caller, place):
            raise _absent()
        details: JsonObject = {"by": caller.name}
        await self._eraser.check(survey)
        await self._schedules.delete_proposed(caller.workspace, selection.runs, by=caller.name)
        erased = await self._eraser.erase(survey, "conversation.deleted", details, by=caller.name)
        count = sum(erased.records.values())
        return JsonAnswer({"conversation_id": conversation, "deleted": True, "records": count})

    def _title(self, row: ConversationRow) -> str:
        """The beginning of the oldest message. Blocks."""
        first = self._store.transcript(
            TranscriptQuery(
                workspace=row.workspace,
                bot=row.bot,
                conversation=row.conversation,
                thread=row.thread,
                limit=1,
                forward=True,
            )
        )
        return title_of((first[0].content if first else None) or "")

    def _page(self, query: TranscriptQuery, purpose: str, limit: int) -> _MessagePage:
        """Blocks. A page may reach its size limit before its number of messages."""
        items, more = filled(self._rows(query), lambda row: self._item(row, purpose), limit)
        return _MessagePage(items, items[-1].seq if more else None)

    def _rows(self, query: TranscriptQuery) -> Iterator[TranscriptRow]:
        while True:
            rows = self._store.transcript(query)
            yield from rows
            if len(rows) < query.limit:
                return
            query = replace(query, before=rows[-1].seq)

    def _item(self, row: TranscriptRow, purpose: str) -> TranscriptItem:
        refs = refs_of(row, lambda artifact_id: self._store.artifact(row.workspace, artifact_id))
        return item_of(row, self._pages.seal(row.workspace, purpose, row.seq), refs)


def _absent() -> NotFound:
    return NotFound(
        "there is no such conversation", reason="no_conversation", hint="`bollard conversations` lists them"
    )


def _listed(row: ConversationRow, title: str) -> JsonObject:
    return {
        "conversation_id": row.conversation,
        "thread_id": row.thread,
        "bot_id": row.bot,
        "title": title,
        "last_message_at": row.last_ms / 1000,
        "last_seq": row.last_seq,
    }


def _found(row: TranscriptRow, match: re.Pattern[str]) -> JsonObject:
    return _FOUND.of(
        row,
        conversation_id=row.conversation,
        thread_id=row.thread,
        bot_id=row.bot,
        snippet=snippet_of(row.content or "", match),
    )


def match_of(wanted: Sequence[Clause]) -> re.Pattern[str]:
    """A pattern for the terms of a search, for snippets."""
    terms = sorted({term for clause in wanted for term in clause})
    # Words are found whole; CJK text has no spaces around its words.
    forms = (term if cjk_characters(term) else rf"(?<![a-z0-9]){re.escape(term)}(?![a-z0-9])" for term in terms)
    return re.compile("|".join(forms), re.IGNORECASE)


def title_of(text: str) -> str:
    """The first line with text, shortened."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def snippet_of(text: str, match: re.Pattern[str]) -> str:
    """One line around the first match. The index folds more forms than case, such as full-width letters: a text without
    a literal match is shown from its beginning."""
    found = match.search(text)
    start = 0 if found is None else max(0, found.start() - _BEFORE_MATCH)
    end = start + SNIPPET_CHARACTERS
    line = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{line}{'…' if end < len(text) else ''}"
