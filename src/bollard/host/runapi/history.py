"""`history.page` and `history.search`: the transcript of the run's own conversation and thread; of another
conversation only where the grant names it. What a user looks for is only ever data."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pydantic import ValidationError

from bollard.host.grants.check import NOT_FOUND, whole_conversation
from bollard.host.runapi.cursors import Cursors
from bollard.host.runapi.pages import filled
from bollard.host.runapi.reach import FindArtifact
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runapi.transcript_items import item_of, refs_of
from bollard.host.runs.live import LiveRun
from bollard.host.store.boundary import Store, TranscriptQuery
from bollard.host.store.places import place_of
from bollard.host.store.rows import TranscriptRow
from bollard.host.store.search_text import terms
from bollard.protocol import (
    HistoryPage,
    HistoryPageQuery,
    HistorySearch,
    HistorySearchResult,
    Strict,
    Timestamp,
    TranscriptItem,
    first_problem,
)

__all__ = ["History"]

_PAGE: Final = "history.page"
ROWS_AT_ONCE: Final = 32
"""Messages that are read into memory at once: each may be large, and a page may be full before its number is."""
FILTERED_HITS: Final = 500
"""Best hits of a search among which its filters choose."""


class _Filters(Strict):
    """What a search may be narrowed by; times are exclusive."""

    role: str | None = None
    before: Timestamp | None = None
    after: Timestamp | None = None

    def admit(self, row: TranscriptRow) -> bool:
        at = row.created_ms / 1000
        return (
            self.role in (None, row.role)
            and (self.before is None or at < self.before)
            and (self.after is None or at > self.after)
        )


class History:
    """Reads the transcript for runs."""

    def __init__(self, store: Store, cursors: Cursors, find_artifact: FindArtifact) -> None:
        self._store = store
        self._cursors = cursors
        self._find_artifact = find_artifact

    async def page(self, run: LiveRun, params: HistoryPageQuery) -> HistoryPage:
        """Items are oldest first, whichever way the pages go."""
        query = _place(run, params.conversation_id)
        run_id, digest = run.facts.run_id, _digest(query)
        query = replace(
            query,
            before=self._cursors.open(_PAGE, run_id, digest, params.before, "before"),
            after=self._cursors.open(_PAGE, run_id, digest, params.after, "after"),
            forward=params.direction == "forward",
        )
        return await asyncio.to_thread(self._page, run, query, params)

    async def search(self, run: LiveRun, params: HistorySearch) -> HistorySearchResult:
        """Best first; hits that no page could hold are left out from the worst end."""
        filters = _filters(params)
        wanted = params.top_k if filters is None else FILTERED_HITS
        query = replace(_place(run, None), limit=wanted)
        items = await asyncio.to_thread(self._search, run, query, params, filters)
        return HistorySearchResult(items=tuple(items), query=params.query)

    def _page(self, run: LiveRun, query: TranscriptQuery, params: HistoryPageQuery) -> HistoryPage:
        items, has_more = filled(
            self._rows(query),
            lambda row: self._item(run, query, row, include_artifacts=params.include_artifacts),
            params.limit,
        )
        first, last = (items[0].cursor, items[-1].cursor) if items else (None, None)
        return HistoryPage(
            items=tuple(items if query.forward else reversed(items)),
            next_cursor=last if has_more else None,
            prev_cursor=first,
            has_more=has_more,
        )

    def _rows(self, query: TranscriptQuery) -> Iterator[TranscriptRow]:
        while True:
            rows = self._store.transcript(query)
            yield from rows
            if len(rows) < query.limit:
                return
            last = rows[-1].seq
            query = replace(query, after=last) if query.forward else replace(query, before=last)

    def _search(
        self, run: LiveRun, query: TranscriptQuery, params: HistorySearch, filters: _Filters | None
    ) -> list[TranscriptItem]:
        rows = self._store.search(query, terms(params.query))
        chosen = rows if filters is None else filter(filters.admit, rows)
        items, _ = filled(chosen, lambda row: self._item(run, query, row, include_artifacts=False), params.top_k)
        return items

    def _item(
        self, run: LiveRun, query: TranscriptQuery, row: TranscriptRow, *, include_artifacts: bool
    ) -> TranscriptItem:
        cursor = self._cursors.seal(_PAGE, run.facts.run_id, _digest(query), row.seq)
        refs = refs_of(row, lambda artifact_id: self._find_artifact(run, artifact_id)) if include_artifacts else ()
        return item_of(row, cursor, refs)


def _place(run: LiveRun, conversation: str | None) -> TranscriptQuery:
    """What is read: the run's own thread, or the conversation itself of another one. Raises `ApiRefused`."""
    scope = run.grant.scope
    if conversation in (None, scope.conversation) and scope.conversation is not None:
        conversation, thread = scope.conversation, scope.thread
    elif conversation is not None and whole_conversation(run.grant, run.revoked, conversation):
        thread = None
    else:
        denied = NOT_FOUND["history"]
        raise ApiRefused(denied.code, denied.sentence)
    return TranscriptQuery(
        workspace=scope.workspace, bot=scope.bot, conversation=conversation, thread=thread, limit=ROWS_AT_ONCE
    )


def _digest(query: TranscriptQuery) -> str:
    return place_of(query.workspace, query.bot, query.conversation, query.thread)


def _filters(params: HistorySearch) -> _Filters | None:
    """Raises `ApiRefused` at a filter that nobody knows: ignored, it would widen what was asked for."""
    if not params.filters:
        return None
    try:
        return _Filters.from_wire(params.filters)
    except ValidationError as error:
        field, problem = first_problem(error)
        details = {"field": f"filters.{field}"}
        raise ApiRefused("invalid_argument", f"filters.{field}: {problem}", details={**details}) from error
