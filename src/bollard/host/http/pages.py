"""Pages of every list: `limit` and a signed `cursor` in, `{items, has_more, next_cursor}` out."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.requests import Request

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.callers import caller_of
from bollard.host.http.queries import page_limit
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import BadCursor, open_cursor, seal_cursor

__all__ = ["Pages"]

T = TypeVar("T")


class Pages:
    """Makes and reads cursors: each is good for one list of one workspace."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def place(self, request: Request, purpose: str) -> JsonValue:
        """Where the page begins, as `answer` was told; nothing for the first page."""
        cursor = request.query_params.get("cursor")
        if cursor is None:
            return None
        try:
            return open_cursor(self._secret, cursor, purpose=purpose, scope=caller_of(request).workspace)
        except BadCursor as error:
            raise InvalidRequest(str(error), hint="start again without a cursor", field="cursor") from error

    def numbered(self, request: Request, purpose: str) -> int | None:
        """The same, for lists whose places are numbers."""
        place = self.place(request, purpose)
        return place if isinstance(place, int) else None

    def answer(self, request: Request, purpose: str, items: Sequence[JsonObject], behind: JsonValue) -> JsonAnswer:
        """A page. `behind` is the place of its last item where there is more, else nothing."""
        body: JsonObject = {"items": [*items], "has_more": behind is not None}
        if behind is not None:
            body["next_cursor"] = self.seal(caller_of(request).workspace, purpose, behind)
        return JsonAnswer(body)

    def seal(self, workspace: str, purpose: str, place: JsonValue) -> str:
        """A cursor for a place."""
        return seal_cursor(self._secret, purpose=purpose, scope=workspace, place=place)

    def of_rows(
        self,
        request: Request,
        purpose: str,
        rows: Sequence[T],
        shown: Callable[[T], JsonObject],
        place: Callable[[T], JsonValue],
        keep: Callable[[T], bool] = lambda _: True,
        *,
        cut: bool = False,
    ) -> JsonAnswer:
        """A page of rows that were read, one more than the page may have. What is not kept makes the page shorter, and
        so does the store, where they are so large that it `cut` them."""
        limit = page_limit(request)
        if cut and len(rows) <= limit:
            limit = max(1, len(rows) - 1)  # a single one that fills a page may be the last: then the next is empty
        behind = place(rows[limit - 1]) if cut or len(rows) > limit else None
        return self.answer(request, purpose, [shown(row) for row in rows[:limit] if keep(row)], behind)

    def of_all(
        self,
        request: Request,
        purpose: str,
        things: Sequence[T],
        key: Callable[[T], str],
        shown: Callable[[T], JsonObject],
    ) -> JsonAnswer:
        """A page of things that are all in memory, in the order of their keys. The cursor is the last key."""
        place = self.place(request, purpose)
        start = 0 if place is None else bisect_right(things, str(place), key=key)
        return self.of_rows(request, purpose, things[start : start + page_limit(request) + 1], shown, key)
