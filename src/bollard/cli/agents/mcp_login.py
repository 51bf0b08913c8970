"""`bollard mcp login`: opens the login page of a server in a browser, and listens on a loopback port for the redirect.
The host checks and exchanges the code; this command stores nothing."""

import asyncio
import hmac
import html
import sys
import webbrowser
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qs, urlsplit

from bollard.cli.errors import UsageProblem
from bollard.cli.limits import LOGIN_HEAD_BYTES, LOGIN_HEAD_S, LOGIN_S
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable

if TYPE_CHECKING:
    from bollard.cli.client.host_client import HostClient
    from bollard.protocol import JsonObject


_HERE: Final = "127.0.0.1"
_PATH: Final = "/callback"
_ANSWER: Final = (
    "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {length}\r\n"
    "content-security-policy: default-src 'none'\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
    "connection: close\r\n\r\n"
)


async def log_in(
    shell: Shell, client: "HostClient", server_path: str, name: str, *, port: int, opens: bool
) -> "JsonObject":
    """Log in and return the server. Raises `UsageProblem`, and errors of the client."""
    waiting = _Waiting(shell)
    try:
        listener = await asyncio.start_server(waiting.answer, _HERE, port, limit=LOGIN_HEAD_BYTES)
    except OSError as error:
        raise UsageProblem("error.mcp_port", "hint.mcp_port", port=port, detail=error) from error
    async with listener:
        redirect = f"http://{_HERE}:{listener.sockets[0].getsockname()[1]}{_PATH}"
        begun = cast("dict[str, Any]", await client.post(f"{server_path}/login", {"redirect_uri": redirect}))
        waiting.state = begun["state"]
        _send(shell, name, begun["authorization_url"], opens=opens)
        try:
            async with asyncio.timeout(LOGIN_S):
                back = await waiting.back
        except TimeoutError:
            minutes = f"{LOGIN_S / 60:g}"
            raise UsageProblem("error.mcp_login_late", "hint.mcp_login", name=name, minutes=minutes) from None
    if "code" not in back:
        problem = printable(back.get("error_description") or back.get("error") or "?")[:300]
        raise UsageProblem("error.mcp_login_refused", "hint.mcp_login", name=name, problem=ValueError(problem))
    given: JsonObject = {field: back[field] for field in ("code", "state", "iss") if field in back}
    return await client.post(f"{server_path}/login/complete", given)


def _send(shell: Shell, name: str, url: str, *, opens: bool) -> None:
    """Print the URL; on stderr if stdout is for programs."""
    shown = shell.text("mcp.go", name=name, url=printable(url))
    if shell.for_programs:
        sys.stderr.write(shown + "\n")
        sys.stderr.flush()
    else:
        shell.print(shown)
    if opens and url.startswith(("https://", "http://")):
        webbrowser.open(url)


class _Waiting:
    """Answers every request, and accepts the first with the state of this login."""

    def __init__(self, shell: Shell) -> None:
        self._text = shell.text
        self.state = ""
        self.back: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(LOGIN_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
                brought = _brought(head)
                known = self.state != "" and _same(brought.get("state", ""), self.state)
                writer.write(self._page("200 OK" if known else "404 Not Found", good=known and "code" in brought))
                await writer.drain()
            if known and not self.back.done():
                self.back.set_result(brought)
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError):
            return  # the client is gone, or is not a browser
        finally:
            writer.close()

    def _page(self, status: str, *, good: bool) -> bytes:
        words = html.escape(self._text("mcp.back" if good else "mcp.not_back"))
        body = f"<!doctype html><meta charset=utf-8><title>Bollard</title><p>{words}</p>".encode()
        return _ANSWER.format(status=status, length=len(body)).encode() + body


def _brought(head: bytes) -> dict[str, str]:
    """The query of the redirect; `None` for any other request."""
    try:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        parts = urlsplit(target)
        query = parse_qs(parts.query, strict_parsing=True, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[0] for name, values in query.items()} if (method, parts.path) == ("GET", _PATH) else {}


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())
