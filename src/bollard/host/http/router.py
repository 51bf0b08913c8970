"""The ASGI application: routes each request to its operation."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import MethodType
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from bollard.host.errors import HostError, NotFound
from bollard.host.http.answers import JsonAnswer, error_answer, internal_error
from bollard.host.http.guard import Endpoint, Guard
from bollard.host.http.operations import Operation, Resource

T = TypeVar("T")

PATH_CHARACTERS: Final = 4096
"""The longest path that is routed."""


@dataclass(slots=True)
class _Node(Generic[T]):
    """One part of a path, with the parts that follow: fixed names, and a placeholder."""

    named: dict[str, "_Node[T]"] = field(default_factory=dict[str, "_Node[T]"])
    any: "_Node[T] | None" = None
    targets: "dict[str, tuple[T, tuple[str, ...]]]" = field(default_factory=dict[str, "tuple[T, tuple[str, ...]]"])
    """By method: the target, and the names of the placeholders."""


class Paths(Generic[T]):
    """Maps methods and paths to targets. Paths without placeholders are found in one lookup, others in a tree."""

    def __init__(self, targets: Iterable[tuple[str, str, T]]) -> None:
        """Takes tuples of method, path and target. Raises `ValueError` for a duplicate."""
        self._exact: dict[tuple[str, str], T] = {}
        self._root: _Node[T] = _Node()
        for method, path, target in targets:
            self._add(method, path, target)
            if method == "GET":
                self._add("HEAD", path, target)

    def _add(self, method: str, path: str, target: T) -> None:
        node, names = self._root, list[str]()
        for part in path.split("/")[1:]:
            if part.startswith("{"):
                names.append(part[1:-1])
                node.any = node = node.any or _Node()
            else:
                node = node.named.setdefault(part, _Node())
        if method in node.targets:
            raise ValueError(f"{method} {path} is defined twice")
        node.targets[method] = (target, tuple(names))
        if not names:
            self._exact[method, path] = target

    def find(self, method: str, path: str, raw: bytes | None = None) -> "tuple[T, dict[str, str]] | None":
        """The target, and the values of the placeholders. In the raw path a value may have an encoded slash."""
        target = self._exact.get((method, path))
        if target is not None:
            return target, {}
        for node, chosen in self._nodes(path, raw):
            here = node.targets.get(method)
            if here is not None:
                return here[0], dict(zip(here[1], chosen, strict=True))
        return None

    def methods(self, path: str, raw: bytes | None = None) -> list[str]:
        """The methods of a path."""
        return sorted({method for node, _ in self._nodes(path, raw) for method in node.targets})

    def _nodes(self, path: str, raw: bytes | None) -> "Iterator[tuple[_Node[T], tuple[str, ...]]]":
        """The nodes that match a path: fixed names before placeholders."""
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
"""Close codes of a socket that failed, and of one that the client may open again."""


class MethodNotAllowed(HostError):
    """The path has no such method."""

    code = "method_not_allowed"


Pages = Callable[[Scope], Awaitable[Response | None]]
"""Answers requests whose paths have no operation, if they are for a page."""


async def _no_page(scope: Scope) -> None:
    del scope


class Router:
    """Serves the operations of these resources behind one guard."""

    def __init__(self, resources: Iterable[Resource], guard: Guard, pages: Pages = _no_page) -> None:
        self._guard = guard
        self._pages = pages
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
            methods = ", ".join(self._paths.methods(scope["path"], scope.get("raw_path")))
            page = None if methods else await self._pages(scope)
            answer = page or self._not_found(scope, methods)
            self._guard.counted("none" if page is None else "console", answer.status_code)
            await answer(scope, receive, send)
            return
        endpoint, scope["path_params"] = found
        await self._guard.answer(endpoint, scope, receive, send)

    def operation_at(self, path: str) -> Operation | None:
        """The operation that serves a GET of this path."""
        found = self._paths.find("GET", path)
        return None if found is None else found[0].operation

    @staticmethod
    def _not_found(scope: Scope, methods: str) -> JsonAnswer:
        if not methods:
            return error_answer(NotFound("this path does not exist", reason="path", hint="see docs/reference/http.md"))
        error = MethodNotAllowed(
            f"this path does not support {scope['method']}",
            reason="method",
            hint=f"use {methods}",
            method=scope["method"],
            methods=methods,
        )
        answer = error_answer(error)
        answer.headers["allow"] = methods
        return answer

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket. A refused handshake gets an HTTP response."""
        socket = WebSocket(scope, receive, send)
        try:
            await self._serve_socket(socket)
        except WebSocketDisconnect:
            return
        except HostError as error:
            if socket.application_state is WebSocketState.CONNECTING:
                await socket.send_denial_response(error_answer(error))
            else:  # the socket is open: no HTTP response is possible
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await socket.close(_LATER if error.retryable else _FAILED, error.code)
        except Exception:  # noqa: BLE001 -- the boundary, as for requests
            _log.exception("a WebSocket failed", path=scope["path"])
            with contextlib.suppress(RuntimeError):  # it may be closed already
                await socket.close(_FAILED, internal_error().message)

    async def _serve_socket(self, socket: WebSocket) -> None:
        found = self._paths.find("GET", socket.scope["path"], socket.scope.get("raw_path"))
        if found is None or found[0].socket is None:
            raise NotFound("this path has no WebSocket", reason="socket", hint="see docs/reference/http.md")
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
