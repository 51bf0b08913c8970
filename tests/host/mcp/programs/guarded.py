"""An MCP server that needs a login, and its authorization server, on two ports.

Grants every login at once, and obeys /control: `expires=N` for tokens from now on, `forget=access` and `forget=refresh`
of all issued ones, `refuse=codes`, `down=1`, `reset=1`. Its requests are under /seen.
"""

import asyncio
import json
import secrets
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    ProviderTokenVerifier,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LASTS_S = 3600


class Authority:
    """Keeps everything in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.told: dict[str, str] = {}
        self.granted: list[str] = []
        self.issued: list[str] = []
        self.seen_headers: set[str] = set()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info
        self.issued += [client_info.client_secret] if client_info.client_secret else []

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=f"code-{secrets.token_hex(16)}",
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return None if self.told.get("refuse") == "codes" else self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.granted.append("code")
        return self._given(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.granted.append("refresh")
        return self._given(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def _given(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"at-{secrets.token_hex(24)}", f"rt-{secrets.token_hex(24)}"
        self.issued += [access, refresh]
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client.client_id, scopes=scopes, resource=resource
        )
        lasts = int(self.told.get("expires", LASTS_S))
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=lasts, scope=" ".join(scopes))


class Door:
    """Remembers the headers of requests to the authorization server, and closes on demand."""

    def __init__(self, inner: ASGIApp, authority: Authority) -> None:
        self._inner = inner
        self._authority = authority

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._authority.seen_headers |= {name.decode() for name, _ in scope["headers"]}
            if self._authority.told.get("down") and scope["path"] == "/token":
                await Response(status_code=503)(scope, receive, send)
                return
            if (methods := self._authority.told.get("pkce")) and "oauth-authorization-server" in scope["path"]:
                send = changed_metadata(send, methods)
        await self._inner(scope, receive, send)


def changed_metadata(send: Send, methods: str) -> Send:
    """The metadata of the authority, with other methods of PKCE; with none at all for `missing`."""
    started: list[Message] = []

    async def pass_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.append(message)
            return
        said = json.loads(message["body"])
        del said["code_challenge_methods_supported"]
        said |= {} if methods == "missing" else {"code_challenge_methods_supported": methods.split()}
        await JSONResponse(said)({"type": "http"}, _never, send)

    return pass_on


async def _never() -> Message:
    raise AssertionError("an answer asks for nothing")


async def serve(mcp_port: int, authority_port: int) -> None:
    here = f"http://127.0.0.1:{authority_port}"
    authority = Authority()

    async def control(request: Request) -> Response:
        said = dict(request.query_params)
        if "reset" in said:
            authority.told.clear()
        if said.get("forget") == "access":
            authority.access.clear()
        if said.get("forget") == "refresh":
            authority.refresh.clear()
        authority.told.update(
            {name: value for name, value in said.items() if name in {"expires", "refuse", "down", "pkce"}}
        )
        return JSONResponse({})

    async def seen(request: Request) -> Response:
        said: dict[str, Any] = {
            "clients": len(authority.clients),
            "granted": authority.granted,
            "issued": authority.issued,
            "headers": sorted(authority.seen_headers),
        }
        return JSONResponse(said)

    options = ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"], default_scopes=["read"])
    routes = create_auth_routes(authority, AnyHttpUrl(here), client_registration_options=options)
    routes += [Route("/control", control), Route("/seen", seen)]
    server = MCPServer(
        "guarded",
        token_verifier=ProviderTokenVerifier(authority),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(here),
            resource_server_url=AnyHttpUrl(f"http://127.0.0.1:{mcp_port}/mcp"),
            required_scopes=["read"],
        ),
    )

    @server.tool()
    async def whisper(ctx: Context) -> str:
        """Says something to who may hear it."""
        return "psst"

    apps = ((server.streamable_http_app(), mcp_port), (Door(Starlette(routes=routes), authority), authority_port))
    await asyncio.gather(
        *(uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical")).serve() for app, port in apps)
    )


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
