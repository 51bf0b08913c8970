"""`history.page` and `history.search`: the transcript of the run's thread, or of a whole conversation that the grant
names. Search terms are data, never patterns."""

import asyncio
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from bollard.host.grants.check import NOT_FOUND, whole_conversation
from bollard.host.run_api.pages import Cursors, filled, size_of
from bollard.host.run_api.reach import FindArtifact, FlowTracker
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.runs.live_run import LiveRun
from bollard.host.scope import Scope
from bollard.host.store.keys import place_of
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.rows import ArtifactRow, TranscriptRow
from bollard.host.store.store import Store
from bollard.protocol import (
    ArtifactRef,
    HistoryFilters,
    HistoryPage,
    HistoryPageQuery,
    HistorySearch,
    HistorySearchResult,
    JsonValue,
    TranscriptItem,
    first_problem,
    limits,
)
from bollard.segments import clauses

REFS_PER_ITEM: Final = 32
"""Artifact references of one message."""
SHORT_CHARACTERS: Final = limits.PAGE_BYTES // 8
"""The length to which an oversized text is cut. JSON needs at most six bytes per character."""

_decode: Final = msgspec.json.Decoder().decode


def item_of(row: TranscriptRow, cursor: str, refs: tuple[ArtifactRef, ...]) -> TranscriptItem:
    """One message. A message larger than a page is cut and marked as `shortened`."""
    item = TranscriptItem(
        transcript_id=row.transcript_id,
        event_id=row.event_id,
        conversation_id=row.conversation,
        thread_id=row.thread,
        role=row.role,
        content=row.content,
        content_json=None if row.content_json is None else _decode(row.content_json),
        artifact_refs=refs,
        seq=row.seq,
        cursor=cursor,
        created_at=row.created_ms / 1000,
    )
    if size_of(item) <= limits.PAGE_BYTES:
        return item
    short = None if row.content is None else row.content[:SHORT_CHARACTERS]
    return item.model_copy(
        update={"content": short, "content_json": None, "artifact_refs": (), "metadata": {"shortened": True}}
    )


def refs_of(row: TranscriptRow, find: Callable[[str], ArtifactRow | None]) -> tuple[ArtifactRef, ...]:
    """The artifact references of the message and the artifacts in its content, each once."""
    refs: dict[str, ArtifactRef] = {}
    content = None if row.content_json is None else _decode(row.content_json)
    for named in _named(content):
        if len(refs) == REFS_PER_ITEM:
            break
        if isinstance(named, ArtifactRef):
            refs.setdefault(named.artifact_id, named)
        elif (artifact := find(named)) is not None:
            refs.setdefault(artifact.artifact_id, artifact_ref(artifact))
    return tuple(refs.values())


def _named(content: JsonValue) -> Iterator[ArtifactRef | str]:
    if isinstance(content, dict):  # a whole message
        refs = content.get("artifact_refs")
        for ref in refs if isinstance(refs, list) else ():
            try:
                yield ArtifactRef.from_wire(ref)
            except ValidationError:
                continue  # the log stores results of runners unchanged, including invalid references
        content = content.get("content")
    for element in content if isinstance(content, list) else ():
        artifact_id = element.get("artifact_id") if isinstance(element, dict) else None
        if isinstance(artifact_id, str):
            yield artifact_id


def artifact_ref(row: ArtifactRow) -> ArtifactRef:
    """The reference to an artifact."""
    return ArtifactRef(
        artifact_id=row.artifact_id,
        artifact_type=row.type,
        mime_type=row.mime_type,
        name=row.name,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        expires_at=None if row.expires_ms is None else row.expires_ms / 1000,
    )


_PAGE: Final = "history.page"
ROWS_AT_ONCE: Final = 32
"""Messages per read. Each may be large, and the size limit of a page may be reached first."""
_ROWS_OF_A_THREAD: Final = 4
"""The minimum per thread when several threads are merged."""
THREADS: Final = 32
"""Threads of a whole conversation that are merged, those with the newest runs."""
THREAD_RUNS: Final = 2000
"""Runs of a conversation that are scanned for threads."""
_LAST_S: Final = 1 << 43
"""The latest time, in seconds of the epoch."""


class _Reading(msgspec.Struct, frozen=True):
    """A query for one thread, or for the whole conversation."""

    query: TranscriptQuery
    whole: bool = False

    @property
    def place(self) -> str:
        query = self.query
        own = place_of(query.workspace, query.bot, query.conversation, query.thread)
        return f"{own}/whole" if self.whole else own


class History:
    """Reads the transcript for runs."""

    def __init__(self, store: Store, cursors: Cursors, find_artifact: FindArtifact) -> None:
        self._store = store
        self._cursors = cursors
        self._find_artifact = find_artifact

    async def page(self, run: LiveRun, params: HistoryPageQuery) -> HistoryPage:
        """Items are oldest first in both directions."""
        reading, run_id = _reading(run, params.conversation_id), run.facts.run_id
        query = replace(
            reading.query,
            before=self._cursors.open(_PAGE, run_id, reading.place, params.before, "before"),
            after=self._cursors.open(_PAGE, run_id, reading.place, params.after, "after"),
            forward=params.direction == "forward",
        )
        flow = FlowTracker()
        page = await asyncio.to_thread(self._page, run, replace(reading, query=query), params, flow)
        run.take_in(flow.bits)
        return page

    async def search(self, run: LiveRun, params: HistorySearch) -> HistorySearchResult:
        """Best hits first. The worst hits are left out if the page is full."""
        filters = _filters(params)
        reading = _reading(run, filters.conversation_id)
        query = replace(
            reading.query,
            limit=params.top_k,
            role=filters.role,
            event_types=filters.event_types,
            actor_type=filters.actor_type,
            actor_id=filters.actor_id,
            before_ms=_ms(filters.before),
            after_ms=_ms(filters.after),
        )
        flow = FlowTracker()
        items = await asyncio.to_thread(self._search, run, replace(reading, query=query), params, flow)
        run.take_in(flow.bits)
        return HistorySearchResult(items=tuple(items), query=params.query)

    def _page(self, run: LiveRun, reading: _Reading, params: HistoryPageQuery, flow: FlowTracker) -> HistoryPage:
        items, has_more = filled(
            self._whole(reading.query) if reading.whole else self._rows(reading.query),
            lambda row: self._item(run, reading, row, flow, include_artifacts=params.include_artifacts),
            params.limit,
        )
        first, last = (items[0].cursor, items[-1].cursor) if items else (None, None)
        return HistoryPage(
            items=tuple(items if reading.query.forward else reversed(items)),
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

    def _whole(self, query: TranscriptQuery) -> Iterator[TranscriptRow]:
        """Merges the threads, because no index orders them together."""
        threads = self._threads(query)
        limit = max(_ROWS_OF_A_THREAD, query.limit // len(threads))
        sides = (self._rows(replace(query, thread=thread, limit=limit)) for thread in threads)
        return merge(*sides, key=lambda row: row.seq, reverse=not query.forward)

    def _threads(self, query: TranscriptQuery) -> list[str | None]:
        found = self._store.threads(query.workspace, query.bot, query.conversation, THREAD_RUNS)
        return [None, *(thread for thread in found if thread is not None)][:THREADS]

    def _search(
        self, run: LiveRun, reading: _Reading, params: HistorySearch, flow: FlowTracker
    ) -> list[TranscriptItem]:
        wanted, query = clauses(params.query), reading.query
        threads = self._threads(query) if reading.whole else [query.thread]
        found = [self._store.search(replace(query, thread=thread), wanted) for thread in threads]
        # Ranks of two threads cannot be compared, so the best hits of all threads come first, then the second best.
        rows = [row for ranked in zip_longest(*found) for row in sorted(filter(None, ranked), key=_seq, reverse=True)]
        items, _ = filled(rows, lambda row: self._item(run, reading, row, flow, include_artifacts=False), params.top_k)
        return items

    def _item(
        self, run: LiveRun, reading: _Reading, row: TranscriptRow, flow: FlowTracker, *, include_artifacts: bool
    ) -> TranscriptItem:
        cursor = self._cursors.seal(_PAGE, run.facts.run_id, reading.place, row.seq)
        flow.by(row)

        def find(artifact_id: str) -> ArtifactRow | None:
            found = self._find_artifact(run, artifact_id)
            if found is not None:
                flow.by(found)
            return found

        return item_of(row, cursor, refs_of(row, find) if include_artifacts else ())


def thread_cursor(secret: bytes) -> Callable[[str, Scope, int], str]:
    """Makes cursors of messages in a run's own thread, for `history.page`."""
    cursors = Cursors(secret)

    def seal(run_id: str, scope: Scope, seq: int) -> str:
        place = place_of(scope.workspace, scope.bot, scope.conversation, scope.thread)
        return cursors.seal(_PAGE, run_id, place, seq)

    return seal


def _reading(run: LiveRun, conversation: str | None) -> _Reading:
    """The query for the run's own thread, or for a whole conversation that the grant names. Raises `ApiRefused`."""
    scope = run.grant.scope
    whole = conversation is not None and whole_conversation(run.grant, run.revoked, conversation)
    if not whole:
        conversation = scope.conversation if conversation in (None, scope.conversation) else None
    if conversation is None:
        denied = NOT_FOUND["history"]
        raise ApiRefused.of(denied)
    query = TranscriptQuery(
        workspace=scope.workspace,
        bot=scope.bot,
        conversation=conversation,
        thread=None if whole else scope.thread,
        limit=ROWS_AT_ONCE,
    )
    return _Reading(query, whole)


def _seq(row: TranscriptRow) -> int:
    return row.seq


def _ms(at: float | None) -> int | None:
    return None if at is None else round(min(at, _LAST_S) * 1000)


def _filters(params: HistorySearch) -> HistoryFilters:
    """Parse the filters. An unknown filter is refused, because ignoring it would widen the search."""
    try:
        return HistoryFilters.from_wire(params.filters or {})
    except ValidationError as error:
        field, problem = first_problem(error)
        details = {"field": f"filters.{field}"}
        raise ApiRefused("invalid_argument", f"filters.{field}: {problem}", details={**details}) from error
