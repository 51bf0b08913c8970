"""The ASGI application: from a request to its operation. Every answer is typed, also where there is nothing."""

import contextlib
from collections.abc import Iterable
from types import MethodType
from typing import Final

import structlog
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from bollard.host.errors import HostError, NotFound
from bollard.host.http.answers import JsonAnswer, error_answer
from bollard.host.http.guard import Endpoint, Guard, broken
from bollard.host.http.operations import Operation, Resource
from bollard.host.http.routing import Paths

__all__ = ["Router"]

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
