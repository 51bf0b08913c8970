"""MCP servers over HTTP are reached through the proxy of the host, with its exceptions."""

from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
from tests.chinese import english_in
from tests.doubles.proxy_server import ProxyServer, proxy_server
from tests.host.egress.test_proxy import rules
from tests.host.mcp.conftest import Guarded, OpenServers, Servers
from tests.ports import free_port

from bollard.cli.language import load_text
from bollard.host.egress.client import EgressClient
from bollard.host.errors import Conflict

pytestmark = [pytest.mark.anyio, pytest.mark.full]
FAR = "http://192.168.77.7:8000/mcp"
"""An address that only the proxy reaches."""


@pytest.fixture
def proxy(http_server: str) -> Iterator[ProxyServer]:
    with proxy_server(urlsplit(http_server).port or 0, login="ann:s3cret") as server:
        yield server


@pytest.fixture
async def opened(open_servers: OpenServers) -> AsyncIterator[OpenServers]:
    """Servers of one test: the store is that of all."""
    made: list[Servers] = []

    async def open_them(egress: EgressClient | None = None) -> Servers:
        made.append(await open_servers(egress))
        return made[-1]

    yield open_them
    for servers in made:
        for saved in servers.source.repository.all("w"):
            await servers.source.repository.delete("w", saved.value.server.server_id, by="ann")


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_server_behind_the_proxy_is_called_through_it(
    opened: OpenServers, proxy: ProxyServer, scheme: str
) -> None:
    servers = await opened(EgressClient(proxies=rules(proxy.url(scheme), "ann:s3cret")))
    connection = await servers.ready(f"far-{scheme}", url=FAR)
    answer = await servers.call(f"mcp:far-{scheme}/add", {"a": 1, "b": 2})
    assert (connection.status, answer.is_error) == ("connected", False)
    assert set(proxy.targets) == {"192.168.77.7:8000"}


async def test_the_proxy_gets_a_name_if_it_resolves_names(opened: OpenServers, proxy: ProxyServer) -> None:
    servers = await opened(EgressClient(proxies=rules(proxy.url("http"), "ann:s3cret", resolves=True)))
    connection = await servers.add("named", url="https://mcp.invalid/mcp")
    await servers.until(lambda: bool(proxy.targets and connection.problem))
    assert proxy.targets[0] == "mcp.invalid:443"
    assert "certificate" in connection.problem.sentence or "SSL" in connection.problem.sentence, "the TLS is end to end"


async def test_loopback_and_exceptions_are_reached_directly(
    opened: OpenServers, proxy: ProxyServer, http_server: str
) -> None:
    servers = await opened(EgressClient(proxies=rules(proxy.url("http"), "ann:s3cret")))
    await servers.ready("near", url=http_server)
    assert proxy.targets == []


async def test_a_refusal_of_the_proxy_is_the_problem_of_the_server(opened: OpenServers, proxy: ProxyServer) -> None:
    servers = await opened(EgressClient(proxies=rules(proxy.url("http"), "ann:wrong")))
    connection = await servers.add("refused", url=FAR)
    await servers.until(lambda: bool(connection.problem))
    assert str(connection.problem) == "through the proxy: the proxy refused the login (HTTP 407)"
    chinese = load_text("zh_Hans").problem(connection.problem.whole)
    assert chinese == "通过代理：代理拒绝了登录信息 (HTTP 407)"
    assert english_in(chinese) == []


async def test_a_server_that_is_away_is_told_in_chinese_without_a_proxy(opened: OpenServers) -> None:
    servers = await opened()
    for name, url, said in (
        (
            "closed",
            f"http://127.0.0.1:{free_port()}/mcp",
            ("no connection: Connection refused", "无法连接：连接被拒绝"),
        ),
        (
            "unknown",
            "https://mcp.invalid/mcp",
            ("no connection: the name has no address", "无法连接：域名没有对应的地址"),
        ),
    ):
        connection = await servers.add(name, url=url)
        await servers.until(lambda connection=connection: bool(connection.problem))
        chinese = load_text("zh_Hans").problem(connection.problem.whole)
        assert (str(connection.problem), chinese) == said


async def test_an_unknown_name_is_a_problem_before_the_proxy_is_asked(opened: OpenServers, proxy: ProxyServer) -> None:
    servers = await opened(EgressClient(proxies=rules(proxy.url("http"), "ann:s3cret")))
    connection = await servers.add("unknown", url="https://mcp.invalid/mcp")
    await servers.until(lambda: bool(connection.problem))
    assert str(connection.problem).startswith("mcp.invalid has no address")
    assert load_text("zh_Hans").problem(connection.problem.whole) == "无法解析 mcp.invalid"
    assert proxy.targets == []


async def test_the_requests_of_a_login_go_through_the_proxy(opened: OpenServers, guarded: Guarded) -> None:
    port = urlsplit(guarded.url).port or 0
    with proxy_server(port) as proxy:
        servers = await opened(EgressClient(proxies=rules(proxy.url("http"))))
        await servers.add("guarded", url=FAR, auth="oauth")
        with pytest.raises(Conflict):  # the server refuses the name of the proxied address
            await servers.source.begin_login("w", "guarded", "http://127.0.0.1:53682/callback", "ann")
        assert set(proxy.targets) == {"192.168.77.7:8000"}
