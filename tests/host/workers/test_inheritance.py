"""What plugin code finds in its own process: declared variables and its connection, and nothing else of the host."""

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from bollard.wire.process import ENVIRONMENT_ALLOWED

READY_S = 60.0
SEARCHER = """
    import json, os
    from bollard.sdk import RunContext, runner

    def places():
        found = {}
        for number in os.listdir("/proc/self/fd"):
            try:
                found[number] = os.readlink(f"/proc/self/fd/{number}")
            except FileNotFoundError:
                pass  # the one of this list
        return found

    with open("/proc/self/environ", "rb") as file:
        GIVEN = file.read().decode()

    @runner(name="default", label="Searcher")
    async def parrot(ctx: RunContext):
        yield ctx.delta(json.dumps({"given": GIVEN, "now": dict(os.environ), "places": places()}))
"""
SECRETS = (
    *("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "DATABASE_URL", "PGPASSWORD", "HTTPS_PROXY", "SSH_AUTH_SOCK"),
    *("BOLLARD_DATABASE", "BOLLARD_TOKEN", "bollard_key", "BOLLARD_HOST_PID", "NOTIFY_SOCKET", "LISTEN_FDS"),
    *(
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONBREAKPOINT",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
    ),
)
"""Variables that the environment of a host may have. The values are empty folders, so that none has an effect here."""


async def search(pools: Any, **more: Any) -> Any:
    slot = await pools.open_folder("searcher", SEARCHER, **more).wait_ready(READY_S)
    return json.loads(await pools.run(slot, "look", "searcher").spoke())


@pytest.mark.requirement("P11-51")
async def test_plugin_code_finds_no_variable_of_the_host_that_was_not_declared(
    pools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "/nonexistent/secret")
    seen = await search(pools, env=["OPENAI_API_KEY", "BOLLARD_TOKEN", "bollard_key", "BOLLARD_CHANNEL_FD", "ABSENT"])
    given = dict(each.split("=", 1) for each in seen["given"].split("\0") if each)
    assert seen["now"].keys() <= {*ENVIRONMENT_ALLOWED, "OPENAI_API_KEY"}
    assert given.keys() <= {*ENVIRONMENT_ALLOWED, "OPENAI_API_KEY", "BOLLARD_CHANNEL_FD"}
    assert [name for name, value in given.items() if "secret" in value] == ["OPENAI_API_KEY"]


@pytest.mark.requirement("P11-51")
async def test_plugin_code_finds_no_descriptor_of_the_host_or_of_another_worker(pools: Any) -> None:
    await pools.open("parrot").wait_ready(READY_S)
    with tempfile.NamedTemporaryFile() as database, socket.create_server(("127.0.0.1", 0)) as listener:
        for number in (database.fileno(), listener.fileno()):
            os.set_inheritable(number, True)  # as careless code in the host would do
        places = (await search(pools, env=[]))["places"]
        ours = set(places_of_this_process())
    assert (places["0"], database.name in ours, database.name in places.values()) == (os.devnull, True, False)
    named = [place for number, place in places.items() if number not in "012" and not place.startswith("anon_inode:")]
    shared = [place for place in named if place in ours]
    assert [place.partition(":")[0] for place in shared] == ["socket"], (
        "its own connection, of which the host has a copy"
    )


def places_of_this_process() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this list
            yield os.readlink(f"/proc/self/fd/{number}")
