"""OAuth for MCP servers: `RenewingAuth` puts access tokens on requests and renews them, `LoginFlow` runs one login."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, ValidationError

from bollard.mcp_bridge.dialer import Dialer
from bollard.mcp_bridge.fault import Fault, FaultRaised, fault
from bollard.mcp_bridge.http_client import for_login, http_client
from bollard.mcp_bridge.limits import LOGIN_REQUEST_S, LOGIN_VALUE_CHARACTERS, PROBLEM_CHARACTERS
from bollard.wire.addresses import named_address_problem
from bollard.wire.bridge_frames import BeginLogin, FinishLogin, Login, LoginAsked, LoginEnded, ToHost

# --- tokens on requests ---

_VALUE: Final = re.compile(r"[\x21-\x7e]+")
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
_BROKEN: Final = 500
_ISSUER: Final = frozenset({"issuer", "authorization_endpoint", "token_endpoint", "registration_endpoint"})
_NOWHERE: Final = "http://127.0.0.1/"
"""The redirect URI that the SDK requires; a connection never redirects a person."""


class _FlowFault(FaultRaised, OAuthFlowError):
    """The OAuth flow ends for a reason of ours."""

    def __init__(self, why: Fault) -> None:
        super().__init__(why.problem)
        self.fault = why


class _LoginNeeded(_FlowFault):
    """A person must log in again."""


class TokenStore:
    """The token storage of the SDK, in memory. `on_change` is called when tokens are set."""

    def __init__(self, tokens: OAuthToken | None, client: OAuthClientInformationFull | None) -> None:
        self.tokens = tokens
        self.client = client
        self.on_change: Callable[[], None] = lambda: None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.on_change()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _FixedScope(OAuthClientMetadata):
    """Keeps the configured scope; the SDK would replace it with that of the server."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "scope":
            super().__setattr__(name, value)


class MarkedAuth(OAuthClientProvider):
    """Marks the requests of the OAuth flow with `for_login`."""

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    for_login(outgoing)
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class RenewingAuth(MarkedAuth):
    """Authorizes the requests of one connection and renews its tokens. Where the SDK would start a login in the middle
    of a request, it sets `needed` instead."""

    def __init__(self, url: str, login: Login, changed: Callable[[Login], None]) -> None:
        self._store = TokenStore(_tokens(login), known_client(login.client, login.client_secret))
        super().__init__(url, client_metadata([_NOWHERE], []), self._store)
        self.needed: Fault | None = None
        """Why a person must log in; `None` while the login works."""
        self._changed = changed
        self._store.on_change = self._tell
        context = self.context
        context.current_tokens, context.client_info = self._store.tokens, self._store.client
        context.token_expiry_time = login.expires_at
        context.client_metadata.scope = login.scope
        if login.issuer is not None:
            context.oauth_metadata = OAuthMetadata.model_validate(login.issuer)
        if login.resource is not None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
            context.auth_server_url = str(context.protected_resource_metadata.authorization_servers[0])
        self._initialized = True

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Bypass the SDK while the token is valid, because the SDK sends one request at a time."""
        if self.context.is_token_valid():
            self._add_auth_header(request)
            response = yield request
            if response.status_code != _UNAUTHORIZED:
                return
        flow, status = super()._auth_flow(request), 0
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                status = response.status_code
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            if status == _UNAUTHORIZED:
                self.needed = fault("the server rejects the renewed login", "mcp.renewed_login_rejected")
            return
        except _LoginNeeded as error:
            self.needed = error.fault
        finally:
            await flow.aclose()
        yield request  # the server refuses it again, and that is the answer

    async def _perform_authorization(self) -> httpx2.Request:
        """Refresh a token that the server rejects, even if it has not expired."""
        if not self.context.can_refresh_token():
            raise _LoginNeeded(fault("the server rejects the login", "mcp.login_rejected"))
        return await self._refresh_token()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        if not await self._handle_refresh_response(response):
            raise _LoginNeeded(fault("the login cannot be renewed", "mcp.login_not_renewed"))

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        if response.status_code >= _BROKEN or response.status_code == _TOO_MANY:
            status = response.status_code
            problem = f"the authorization server cannot renew the login now: HTTP {status}"
            raise _FlowFault(fault(problem, "mcp.renewal_status", status=status))
        if not await super()._handle_refresh_response(response):
            self._store.tokens = None  # or the SDK would treat them as new tokens
            return False
        return True

    def _tell(self) -> None:
        self._changed(login_made(self))


def login_made(auth: OAuthClientProvider) -> Login:
    """The login to store. Raises `OAuthFlowError` if a value is not valid."""
    context = auth.context
    tokens, client = context.current_tokens, context.client_info
    if tokens is None or client is None:
        raise _FlowFault(fault("there is no token", "mcp.no_token"))
    for value in (tokens.access_token, tokens.refresh_token, client.client_secret, client.client_id):
        if value is not None and (not _VALUE.fullmatch(value) or len(value) > LOGIN_VALUE_CHARACTERS):
            problem = "the authorization server issued a token or a client that is not valid"
            raise _FlowFault(fault(problem, "mcp.invalid_token"))
    issuer, resource = context.oauth_metadata, context.protected_resource_metadata
    return Login(
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token,
        expires_at=context.token_expiry_time,
        scope=tokens.scope,
        client={
            "client_id": client.client_id,
            "redirect_uris": [str(uri) for uri in client.redirect_uris or []],
            "token_endpoint_auth_method": client.token_endpoint_auth_method,
            "issuer": client.issuer,
        },
        client_secret=client.client_secret,
        issuer=None if issuer is None else issuer.model_dump(mode="json", include=set(_ISSUER), exclude_none=True),
        resource=None
        if resource is None
        else {
            "resource": str(resource.resource),
            "authorization_servers": [context.auth_server_url or str(resource.authorization_servers[0])],
        },
    )


def client_metadata(redirect_uris: list[str], scopes: list[str]) -> OAuthClientMetadata:
    """The metadata for the registration of a client."""
    uris = [AnyUrl(uri) for uri in redirect_uris]
    if scopes:
        return _FixedScope(redirect_uris=uris, scope=" ".join(scopes), client_name="Bollard")
    return OAuthClientMetadata(redirect_uris=uris, client_name="Bollard")


def known_client(client: dict[str, object], secret: str | None) -> OAuthClientInformationFull:
    return OAuthClientInformationFull.model_validate({**client, "client_secret": secret})


def _tokens(login: Login) -> OAuthToken:
    left = None if login.expires_at is None else max(0, round(login.expires_at - time.time()))
    return OAuthToken(
        access_token=login.access_token, refresh_token=login.refresh_token, scope=login.scope, expires_in=left
    )


# --- one login ---

_PROBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
"""A request that a server with a login answers with 401. Only the status counts."""

_NO_CHALLENGE_HINT: Final = "its metadata must list S256; a token can be given as a secret in `headers` instead"


class LoginFlow:
    """One login of one person; it is in progress while `run` runs."""

    def __init__(self, order: BeginLogin, tell: Callable[[ToHost], None], dialer: Dialer) -> None:
        self._order = order
        self._dialer = dialer
        self._tell = tell
        self._back: asyncio.Future[FinishLogin] = asyncio.get_running_loop().create_future()

    def finish(self, order: FinishLogin) -> None:
        """Complete the login with the callback; later callbacks are ignored."""
        if not self._back.done():
            self._back.set_result(order)

    async def run(self) -> None:
        """Run the login and send `LoginEnded`. Sends nothing if the task is cancelled."""
        order = self._order
        try:
            async with asyncio.timeout(order.limit_s):
                ended = await self._log_in()
        except TimeoutError:
            ended = self._failed(fault("the login was not completed in time", "mcp.login_too_late"))
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 -- a boundary: what strangers make the SDK raise
            ended = self._failed(_fault(error))
        self._tell(ended)

    async def _log_in(self) -> LoginEnded:
        order = self._order
        auth = _LoginAuth(
            order.url,
            client_metadata([order.redirect_uri], order.scopes),
            TokenStore(None, _client(order)),
            redirect_handler=self._ask,
            callback_handler=self._answer,
        )
        headers = {
            "accept": "application/json, text/event-stream",
            MCP_PROTOCOL_VERSION_HEADER: LATEST_PROTOCOL_VERSION,
        }
        async with http_client(order.url, order.headers, self._dialer, auth) as client:
            request = client.build_request("POST", order.url, json=_PROBE, headers=headers)
            request.extensions["timeout"] = httpx2.Timeout(LOGIN_REQUEST_S).as_dict()
            response = await client.send(request, stream=True, follow_redirects=False)
            await response.aclose()
        if auth.context.current_tokens is None:
            status = response.status_code
            problem = f"the server does not require a login: it answered with {status}"
            hint = "check the address; leave out `auth` for a server without a login"
            return self._failed(fault(problem, "mcp.login_not_required", hint, status=status))
        return LoginEnded(login=order.login, made=login_made(auth))

    def _failed(self, why: Fault) -> LoginEnded:
        return LoginEnded(login=self._order.login, problem=why.problem, details=why.details, hint=why.hint)

    async def _ask(self, url: str) -> None:
        if (problem := named_address_problem(url, self._order.url)) is not None:
            said = f"the login page of the server has an address that {problem.message}"
            raise _FlowFault(fault(said, "mcp.login_page", inner={"problem_type": f"address.{problem.reason}"}))
        (state,) = parse_qs(urlsplit(url).query)["state"][-1:]
        self._tell(LoginAsked(login=self._order.login, url=url, state=state))

    async def _answer(self) -> AuthorizationCodeResult:
        back = await self._back
        return AuthorizationCodeResult(code=back.code, state=back.state, iss=back.iss)


class _LoginAuth(MarkedAuth):
    async def _perform_authorization(self) -> httpx2.Request:
        """Require PKCE with S256, as MCP does: a server that does not list it may ignore it. Choose the authentication
        method at the token endpoint for a client that was registered by hand."""
        client, issuer = self.context.client_info, self.context.oauth_metadata
        if issuer is None or "S256" not in (issuer.code_challenge_methods_supported or ()):
            problem = "the authorization server does not support PKCE with S256"
            raise _FlowFault(fault(problem, "mcp.no_pkce", _NO_CHALLENGE_HINT))
        if client is not None and client.client_secret is not None and client.token_endpoint_auth_method is None:
            taken = issuer.token_endpoint_auth_methods_supported
            post = taken is not None and "client_secret_basic" not in taken and "client_secret_post" in taken
            client.token_endpoint_auth_method = "client_secret_post" if post else "client_secret_basic"
        return await super()._perform_authorization()


def _client(order: BeginLogin) -> OAuthClientInformationFull | None:
    if order.client_id is not None:
        return known_client({"client_id": order.client_id, "redirect_uris": [order.redirect_uri]}, order.client_secret)
    if order.client is not None and order.redirect_uri in order.client.get("redirect_uris", []):
        return known_client(order.client, order.registered_secret)
    return None


def _fault(error: BaseException) -> Fault:
    if isinstance(error, FaultRaised):
        return error.fault
    if isinstance(error, ValidationError):
        return fault("the answer of the authorization server is not valid OAuth", "mcp.invalid_oauth")
    text = (str(error) or type(error).__name__)[:PROBLEM_CHARACTERS]
    return Fault("".join(each if each.isprintable() else " " for each in text))  # untrusted, shown in a terminal
