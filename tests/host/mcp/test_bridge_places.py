"""The places that the bridge process may reach: the host opens its connections, and decides."""

from tests.tables import for_each

from bollard.host.mcp.bridge import address_problem_of
from bollard.wire.bridge_frames import Dial

FAR = "https://mcp.example.org/mcp"
NEAR = "http://127.0.0.1:8000/mcp"


@for_each(
    ("host", "port", "servers"),
    [
        ("mcp.example.org", 443, [FAR]),
        ("127.0.0.1", 8000, [NEAR]),
        ("127.0.0.1", 8000, [FAR, NEAR]),
        ("login.example.org", 443, [FAR]),
        ("10.0.0.7", 443, [NEAR]),
        ("::1", 8000, ["http://[::1]:8000/mcp"]),
    ],
    ids=[
        "server",
        "port_of_a_server",
        "one_of_several",
        "named_by_a_server",
        "named_by_a_server_of_the_own_network",
        "six",
    ],
)
def test_servers_and_the_places_that_they_may_name_are_reached(host: str, port: int, servers: list[str]) -> None:
    assert address_problem_of(Dial(number=1, host=host, port=port, within_s=1), servers) is None


@for_each(
    ("host", "port", "servers"),
    [
        ("127.0.0.1", 5432, [FAR]),
        ("localhost", 5432, [FAR]),
        ("10.0.0.7", 443, [FAR]),
        ("169.254.169.254", 80, [NEAR]),
        ("::1", 5432, [FAR]),
        ("::ffff:127.0.0.1", 5432, [FAR]),
        ("mcp.example.org", 443, []),
    ],
    ids=["database", "name_of_this_machine", "own_network", "metadata", "six", "mapped", "no_server"],
)
def test_other_places_are_refused(host: str, port: int, servers: list[str]) -> None:
    problem = address_problem_of(Dial(number=1, host=host, port=port, within_s=1), servers)
    assert problem is not None
    assert problem.details["problem_type"] == "mcp.leads_to"
