"""The own proxy of a model or a channel. Its login is a secret, which the host reads when it connects."""

from typing import Annotated, Final, Protocol

from pydantic import Field

from bollard.host.agents.saved_body import SavedBody
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connections import NotSent
from bollard.host.egress.proxy import InvalidProxy, Proxy
from bollard.host.errors import EgressDenied, HostError, InvalidRequest, caused_by
from bollard.host.log.saved_resources import Saved
from bollard.host.secrets.references import NAME_PATTERN
from bollard.host.secrets.vault import SecretNote

_URL_CHARACTERS: Final = 2048


class ProxiedBody(SavedBody):
    """A saved resource that may have its own proxy."""

    proxy: Annotated[str, Field(min_length=1, max_length=_URL_CHARACTERS)] | None = Field(
        default=None, description="http://HOST:PORT or socks5://HOST:PORT, instead of the proxy of the host."
    )
    proxy_secret: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        default=None, description="The name of the secret with user:password of the proxy."
    )

    def check_proxy(self, egress: EgressClient) -> None:
        """Raises `InvalidRequest` for a proxy that cannot work, or whose address the egress rules forbid."""
        if self.proxy is None:
            if self.proxy_secret is not None:
                raise self._wrong("proxy_missing", "proxy_secret", "there is no proxy", "set proxy too")
            return
        try:
            place = Proxy.of(self.proxy).place
        except InvalidProxy as error:
            hint = "use http://HOST:PORT or socks5://HOST:PORT, and name the secret with user:password in proxy_secret"
            raise self.invalid("proxy_invalid", "proxy", str(error), hint, **caused_by(error)) from error
        try:
            egress.check_host(place)
        except EgressDenied as error:
            raise self._wrong("proxy_denied", "proxy", error.message, error.hint) from error

    def _wrong(self, reason: str, field: str, problem: str, hint: str) -> InvalidRequest:
        return self.invalid(reason, field, problem, hint, problem=problem)


class Logins(Protocol):
    """Source of logins, implemented by the vault."""

    def find(self, workspace: str, name: str, /) -> Saved[SecretNote] | None: ...

    async def use(self, workspace: str, name: str, *, purpose: str, by: str) -> str: ...


class OwnProxy:
    """The proxy of one model or channel. The use of its login is recorded once for each revision of the secret."""

    def __init__(self, saved: ProxiedBody, logins: Logins | None, workspace: str, purpose: str) -> None:
        self._saved = saved
        self._logins = logins
        self._workspace = workspace
        self._purpose = purpose
        self._opened: tuple[int, Proxy] | None = None
        """The revision of the secret, and the proxy with its login."""

    async def open(self) -> Proxy | None:
        """The proxy; `None` if the resource has none. Raises `NotSent` if the login is unavailable or invalid."""
        url, name = self._saved.proxy, self._saved.proxy_secret
        if url is None:
            return None
        if name is None:
            return Proxy.of(url)
        if self._logins is None:
            raise NotSent("the login of the proxy is unavailable", "net.no_proxy_login")
        found = self._logins.find(self._workspace, name)
        revision = 0 if found is None else found.revision
        if self._opened is None or self._opened[0] != revision:
            try:
                login = await self._logins.use(self._workspace, name, purpose=self._purpose, by="host")
                self._opened = (revision, Proxy.of(url, login))
            except HostError as error:
                message, inner = f"the login of the proxy is unavailable: {error.message}", caused_by(error)
                raise NotSent(message, "net.proxy_login", inner=inner) from error
            except InvalidProxy as error:
                raise NotSent(f"the secret {name}: {error}", "net.proxy_secret", secret=name) from error
        return self._opened[1]
