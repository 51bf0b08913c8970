"""The ASGI application: from a request to its operation. Every answer is typed, also where there is nothing."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import MethodType
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

import structlog
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from bollard.host.errors import HostError, NotFound
from bollard.host.http.answers import JsonAnswer, error_answer
from bollard.host.http.guard import Endpoint, Guard, broken
from bollard.host.http.operations import Operation, Resource

# From a path to what answers it. Exact paths are found in one look; the others part by part in a tree.


T = TypeVar("T")

PATH_CHARACTERS: Final = 4096
"""The longest path that is looked at."""


@dataclass(slots=True)
class _Node(Generic[T]):
    """One part of a path: what follows by name, and what follows whatever it is called."""

    named: dict[str, "_Node[T]"] = field(default_factory=dict[str, "_Node[T]"])
    any: "_Node[T] | None" = None
    found: "dict[str, tuple[T, tuple[str, ...]]]" = field(default_factory=dict[str, "tuple[T, tuple[str, ...]]"])
    """By method: what answers, and what the parts are called that the request chose."""


class Paths(Generic[T]):
    """Paths with a thing for each method."""

    def __init__(self, things: Iterable[tuple[str, str, T]]) -> None:
        """Method, path and thing. Two for one method and path are a mistake of ours."""
        self._exact: dict[tuple[str, str], T] = {}
        self._root: _Node[T] = _Node()
        for method, path, thing in things:
            self._add(method, path, thing)
            if method == "GET":
                self._add("HEAD", path, thing)

    def _add(self, method: str, path: str, thing: T) -> None:
        node, names = self._root, list[str]()
        for part in path.split("/")[1:]:
            if part.startswith("{"):
                names.append(part[1:-1])
                node.any = node = node.any or _Node()
            else:
                node = node.named.setdefault(part, _Node())
        if method in node.found:
            raise ValueError(f"{method} {path} is there twice")
        node.found[method] = (thing, tuple(names))
        if not names:
            self._exact[method, path] = thing

    def find(self, method: str, path: str, raw: bytes | None = None) -> "tuple[T, dict[str, str]] | None":
        """What answers, and the parts that the request chose. In the raw path a part may hold an encoded slash."""
        thing = self._exact.get((method, path))
        if thing is not None:
            return thing, {}
        for node, chosen in self._nodes(path, raw):
            here = node.found.get(method)
            if here is not None:
                return here[0], dict(zip(here[1], chosen, strict=True))
        return None

    def methods(self, path: str, raw: bytes | None = None) -> list[str]:
        """What is possible at a path."""
        return sorted({method for node, _ in self._nodes(path, raw) for method in node.found})

    def _nodes(self, path: str, raw: bytes | None) -> "Iterator[tuple[_Node[T], tuple[str, ...]]]":
        """Where a path may lead: parts that have its name before those that take any."""
        if not path.startswith("/") or len(path) > PATH_CHARACTERS:
            return
        parts = path.split("/")
        if raw is not None and b"%2f" in raw.lower():
            parts = [unquote(part) for part in raw.decode("latin-1").split("/")]
        here: list[tuple[_Node[T], tuple[str, ...]]] = [(self._root, ())]
        for part in parts[1:]:
            behind: list[tuple[_Node[T], tuple[str, ...]]] = []
            for node, chosen in here:
                if (named := node.named.get(part)) is not None:
                    behind.append((named, chosen))
                if node.any is not None and part:
                    behind.append((node.any, (*chosen, part)))
            here = behind
            if not here:
                return
        yield from here


_log = structlog.get_logger("bollard.host.http")
_FAILED: Final = 1011
_LATER: Final = 1013
"""Close codes of a socket that cannot go on, and of one that can be opened again."""


class MethodNotAllowed(HostError):
    code = "method_not_allowed"


class Router:
    """Every operation of these resources behind one guard."""

    def __init__(self, resources: Iterable[Resource], guard: Guard) -> None:
        self._guard = guard
        self._paths: Paths[Endpoint] = Paths(
            (operation.method, operation.path, _bound(resource, operation))
            for resource in resources
            for operation in resource.operations()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        found = self._paths.find(scope["method"], scope["path"], scope.get("raw_path"))
        if found is None:
            answer = self._nothing(scope)
            self._guard.counted("none", answer.status_code)
            await answer(scope, receive, send)
            return
        endpoint, scope["path_params"] = found
        await self._guard.answer(endpoint, scope, receive, send)

    def operation_at(self, path: str) -> Operation | None:
        """What a GET of this path asks for."""
        found = self._paths.find("GET", path)
        return None if found is None else found[0].operation

    def _nothing(self, scope: Scope) -> JsonAnswer:
        methods = ", ".join(self._paths.methods(scope["path"], scope.get("raw_path")))
        if not methods:
            return error_answer(NotFound("there is nothing here", hint="see docs/reference/http.md"))
        answer = error_answer(MethodNotAllowed(f"{scope['method']} is not possible here", hint=f"use {methods}"))
        answer.headers["allow"] = methods
        return answer

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket's handshake: refused like a request, with an answer instead of a socket."""
        socket = WebSocket(scope, receive, send)
        try:
            await self._opened(socket)
        except WebSocketDisconnect:
            return
        except HostError as error:
            if socket.application_state is WebSocketState.CONNECTING:
                await socket.send_denial_response(error_answer(error))
            else:  # it was let in, so that there is no answer to be given any more
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await socket.close(_LATER if error.retryable else _FAILED, error.code)
        except Exception:  # noqa: BLE001 -- the boundary, as for requests
            _log.exception("a socket failed", path=scope["path"])
            with contextlib.suppress(RuntimeError):  # it may be closed already
                await socket.close(_FAILED, broken().message)

    async def _opened(self, socket: WebSocket) -> None:
        found = self._paths.find("GET", socket.scope["path"], socket.scope.get("raw_path"))
        if found is None or found[0].socket is None:
            raise NotFound("there is no socket here", hint="see docs/reference/http.md")
        endpoint, socket.scope["path_params"] = found
        caller = self._guard.admit(endpoint.operation, socket)
        entered = None if caller is None else self._guard.enter(caller)
        self._guard.counted(endpoint.operation.name, 101)
        try:
            await found[0].socket(socket)
        finally:
            self._guard.leave(entered)


def _bound(resource: Resource, operation: Operation) -> Endpoint:
    socket = None if operation.socket is None else MethodType(operation.socket, resource)
    return Endpoint(operation, MethodType(operation.handler, resource), socket)
