"""URLs of MCP servers, and URLs that a server names."""

from tests.tables import for_each

from bollard.wire.addresses import address_problem, named_address_problem

AFAR = "https://mcp.example.org/mcp"
NEAR = "http://10.1.2.3:8000/mcp"


@for_each("url", [AFAR, NEAR, "http://localhost:8000/mcp", "http://[::1]:8000/mcp", "https://8.8.8.8/mcp"])
def test_a_saved_address_is_reached(url: str) -> None:
    assert address_problem(url) is None


@for_each(
    "url",
    [
        "ftp://mcp.example.org",
        "http://mcp.example.org/mcp",
        "http://8.8.8.8/mcp",
        "https://169.254.169.254/latest",
        "https://[::ffff:169.254.169.254]/latest",
        "https://0.0.0.0/mcp",
        "https://ann:pass@mcp.example.org/mcp",
        "https://mcp.example.org/mcp#part",
        "https://mcp.example.org:99999/mcp",
        "https://mcp .example.org/",
        "https:///mcp",
    ],
)
def test_an_invalid_server_address_is_reported(url: str) -> None:
    found = address_problem(url)
    assert found is not None
    assert all((found.reason, found.message, found.hint))


@for_each(
    ("url", "server", "reached"),
    [
        ("https://login.example.org/token", AFAR, True),
        ("https://127.0.0.1/token", AFAR, False),
        ("http://10.0.0.1/token", AFAR, False),
        ("http://localhost:8000/token", AFAR, False),
        ("https://[::1]/token", AFAR, False),
        ("https://[::ffff:127.0.0.1]/token", AFAR, False),
        ("https://[64:ff9b::127.0.0.1]/token", AFAR, False),
        ("https://[2001:0:4136:e378:8000:63bf:f7f7:f7f7]/token", AFAR, False),
        ("http://10.0.0.1/token", NEAR, True),
        ("http://127.0.0.1:9000/token", "http://127.0.0.1:8000/mcp", True),
        ("http://169.254.169.254/token", NEAR, False),
        ("http://login.example.org/token", NEAR, False),
    ],
)
def test_a_server_leads_into_the_internal_network_only_from_there(url: str, server: str, reached: bool) -> None:
    assert (named_address_problem(url, server) is None) == reached
