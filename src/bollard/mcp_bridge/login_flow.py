"""One login of one person for one server: where to go, and what came of it. The person is the host's business."""

import asyncio
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from bollard.mcp_bridge.http_client import http_client
from bollard.mcp_bridge.limits import LOGIN_REQUEST_S, PROBLEM_CHARACTERS
from bollard.mcp_bridge.login_auth import Kept, MarkedAuth, client_metadata, known_client, login_made
from bollard.wire.bridge_addresses import named_address_problem
from bollard.wire.bridge_frames import BeginLogin, FinishLogin, LoginAsked, LoginEnded, ToHost

__all__ = ["LoginFlow"]

_QUESTION: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
"""Anything that a server with a login answers with 401: only the status is looked at."""


class LoginFlow:
    """Lives as long as `run`."""

    def __init__(self, order: BeginLogin, tell: Callable[[ToHost], None]) -> None:
        self._order = order
        self._tell = tell
        self._back: asyncio.Future[FinishLogin] = asyncio.get_running_loop().create_future()

    def finish(self, order: FinishLogin) -> None:
        """The person came back; the first time counts."""
        if not self._back.done():
            self._back.set_result(order)

    async def run(self) -> None:
        """Until it is decided, or the task is cancelled. Tells what came of it unless it was."""
        order = self._order
        try:
            async with asyncio.timeout(order.limit_s):
                ended = await self._through()
        except TimeoutError:
            ended = LoginEnded(login=order.login, problem="nobody came back from the login in time")
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 -- a boundary: what strangers make the SDK raise
            ended = LoginEnded(login=order.login, problem=_words(error))
        self._tell(ended)

    async def _through(self) -> LoginEnded:
        order = self._order
        auth = _LoginAuth(
            order.url,
            client_metadata([order.redirect_uri], order.scopes),
            Kept(None, _client(order)),
            redirect_handler=self._ask,
            callback_handler=self._answer,
        )
        asked = {"accept": "application/json, text/event-stream", MCP_PROTOCOL_VERSION_HEADER: LATEST_PROTOCOL_VERSION}
        async with http_client(order.url, order.headers, auth) as client:
            request = client.build_request("POST", order.url, json=_QUESTION, headers=asked)
            request.extensions["timeout"] = httpx2.Timeout(LOGIN_REQUEST_S).as_dict()
            response = await client.send(request, stream=True, follow_redirects=False)
            await response.aclose()
        if auth.context.current_tokens is None:
            return LoginEnded(
                login=order.login,
                problem=f"the server asks for no login: it answered with {response.status_code}",
                hint="look whether the address is right; without a login leave `auth` out",
            )
        return LoginEnded(login=order.login, made=login_made(auth))

    async def _ask(self, url: str) -> None:
        if (problem := named_address_problem(url, self._order.url)) is not None:
            raise OAuthFlowError(f"the server would send people to an address that {problem}")
        (state,) = parse_qs(urlsplit(url).query)["state"][-1:]
        self._tell(LoginAsked(login=self._order.login, url=url, state=state))

    async def _answer(self) -> AuthorizationCodeResult:
        back = await self._back
        return AuthorizationCodeResult(code=back.code, state=back.state, iss=back.iss)


class _LoginAuth(MarkedAuth):
    async def _perform_authorization(self) -> httpx2.Request:
        """A client that was registered by hand says itself how it is known at the token endpoint, if nobody did."""
        client, issuer = self.context.client_info, self.context.oauth_metadata
        if client is not None and client.client_secret is not None and client.token_endpoint_auth_method is None:
            taken = None if issuer is None else issuer.token_endpoint_auth_methods_supported
            post = taken is not None and "client_secret_basic" not in taken and "client_secret_post" in taken
            client.token_endpoint_auth_method = "client_secret_post" if post else "client_secret_basic"
        return await super()._perform_authorization()


def _client(order: BeginLogin) -> OAuthClientInformationFull | None:
    if order.client_id is not None:
        return known_client({"client_id": order.client_id, "redirect_uris": [order.redirect_uri]}, order.client_secret)
    if order.client is not None and order.redirect_uri in order.client.get("redirect_uris", []):
        return known_client(order.client, order.registered_secret)
    return None


def _words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return "the authorization server sent what is not of the shape that OAuth has"
    said = (str(error) or type(error).__name__)[:PROBLEM_CHARACTERS]
    return "".join(each if each.isprintable() else " " for each in said)  # a stranger's words, shown in a terminal
