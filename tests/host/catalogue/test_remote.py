"""A catalogue at a URL, with a real server: what is fetched, what is refused, and what stays in use after a failure."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.host.catalogue.test_index import KEY, OTHER, PLUGIN, index_of, signed
from tests.tables import for_each

from bollard.host.catalogue.sources import RemoteSource, catalogue_of, check_plugin
from bollard.host.egress.client import EgressClient
from bollard.host.errors import CatalogueUnavailable, HostError, NotFound, SettingsError
from bollard.host.limits import CATALOGUE_FRESH_S, CATALOGUE_README_BYTES, CATALOGUE_RETRY_S
from bollard.host.plugins.description import describe
from bollard.host.plugins.uploads import bundled_root
from bollard.host.settings import Settings


class Site:
    """A web server with these files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.status = 200
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            path = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ")[1]
            self.asked.append(path)
            body = self.files.get(path)
            status = 404 if body is None else self.status
            writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body or b'')}\r\n\r\n".encode() + (body or b""))
            await writer.drain()

    def publish(self, files: dict[str, bytes], **more: Any) -> None:
        """An index with one plugin, beside these files."""
        self.files = {f"/c/{name}": data for name, data in files.items()}
        file = {name: {"path": name, "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
        item = {**PLUGIN, "readme": {"en_US": file["aid.md"]}, "content": file["aid.zip"]}
        index = index_of(item, **{key: value for key, value in more.items() if key != "key"})
        self.files["/c/index.json"] = json.dumps(signed(index, more.get("key", KEY))).encode()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    found.publish({"aid.md": b"# Aid", "aid.zip": b"PK"})
    yield found
    server.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(site: Site, clock: ManualClock) -> RemoteSource:
    egress = EgressClient.of_setting([f"127.0.0.1:{site.port}"])
    return RemoteSource(f"http://127.0.0.1:{site.port}/c/index.json", KEY.verify_key, egress, clock)


async def item_of(source: RemoteSource) -> Any:
    index = (await source.state()).index
    assert index is not None
    return index.items[0]


async def reason_of(wanted: Any) -> str:
    with pytest.raises(HostError) as refused:
        await wanted
    return f"{refused.value.code}.{refused.value.reason}"


async def test_the_index_is_fetched_once_for_readers_at_once_and_again_when_it_is_old(
    site: Site, source: RemoteSource, clock: ManualClock
) -> None:
    states = await asyncio.gather(*(source.state() for _ in range(8)))
    assert {state.index.name for state in states if state.index} == {"Ours"}
    assert site.asked == ["/c/index.json"]
    site.publish({"aid.md": b"# Aid", "aid.zip": b"PK"}, name="Ours, later", issued_at=1795000001)
    clock.advance(CATALOGUE_FRESH_S - 1)
    await source.state()
    clock.advance(1)
    assert (await item_of(source)).item_id == "aid"
    assert site.asked == ["/c/index.json"] * 2


async def test_files_beside_the_index_are_fetched_and_compared(site: Site, source: RemoteSource) -> None:
    item = await item_of(source)
    assert await source.readme(item.readme["en_US"]) == "# Aid"
    assert await source.archive(item) == b"PK"
    site.files["/c/aid.zip"] = b"PK and more"
    assert await reason_of(source.archive(item)) == "catalogue_unavailable.digest"
    del site.files["/c/aid.zip"]
    assert await reason_of(source.archive(item)) == "catalogue_unavailable.status"


@for_each(("readme", "reason"), [(b"x" * (CATALOGUE_README_BYTES + 1), "size"), (b"\xff\xfe", "file")])
async def test_a_readme_that_is_huge_or_no_text_is_refused(readme: bytes, reason: str) -> None:
    site = Site()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    site.publish({"aid.md": readme, "aid.zip": b"PK"})
    egress = EgressClient.of_setting([f"127.0.0.1:{site.port}"])
    source = RemoteSource(f"http://127.0.0.1:{site.port}/c/index.json", KEY.verify_key, egress, ManualClock())
    item = await item_of(source)
    assert await reason_of(source.readme(item.readme["en_US"])) == f"catalogue_unavailable.{reason}"
    server.close()


async def test_after_a_failure_the_last_index_stays_and_the_problem_is_shown(
    site: Site, source: RemoteSource, clock: ManualClock
) -> None:
    await source.state()
    clock.advance(CATALOGUE_FRESH_S)
    site.publish({"aid.md": b"# Aid", "aid.zip": b"PK"}, key=OTHER)
    state = await source.state()
    assert state.index is not None
    assert state.problem is not None
    assert state.problem.reason == "signature"
    clock.advance(CATALOGUE_RETRY_S)
    site.publish({"aid.md": b"# Aid", "aid.zip": b"PK"}, issued_at=1)
    state = await source.state()
    assert state.problem is not None
    assert state.problem.reason == "older"
    clock.advance(CATALOGUE_RETRY_S)
    site.publish({"aid.md": b"# Aid", "aid.zip": b"PK"}, issued_at=1795000002)
    assert (await source.state()).problem is None


async def test_a_first_fetch_that_fails_is_the_error_of_its_items(site: Site, clock: ManualClock) -> None:
    settings = Settings(
        catalogue_url=f"http://127.0.0.1:{site.port}/c/index.json", catalogue_key=KEY.verify_key.public.hex()
    )
    refusing = catalogue_of(settings, bundled_root(), EgressClient(), clock)
    with pytest.raises(CatalogueUnavailable) as refused:
        await refusing.find("remote/aid")
    assert refused.value.reason == "fetch"
    assert refused.value.details["cause"]["code"] == "egress_denied"  # type: ignore[index]
    assert site.asked == []
    assert (await refusing.find("bundled/echo"))[1].name == "bollard/echo"
    assert await reason_of(refusing.find("bundled/aid")) == "not_found.catalogue_item"
    assert await reason_of(refusing.plugin("bundled/greeting")) == "invalid_argument.catalogue_not_plugin"
    with pytest.raises(NotFound):
        await refusing.find("other/aid")


async def test_an_archive_with_another_plugin_is_refused(source: RemoteSource) -> None:
    other = describe(bundled_root() / "plugins" / "echo")
    with pytest.raises(CatalogueUnavailable, match=r"states local/aid 0, and its file contains bollard/echo"):
        check_plugin(await item_of(source), other)


@for_each(
    ("given", "reason"),
    [
        ({"catalogue_url": "index.json", "catalogue_key": "0" * 64}, "catalogue_not_url"),
        ({"catalogue_url": "https://x.example/index.json"}, "catalogue_key"),
        ({"catalogue_url": "https://x.example/index.json", "catalogue_key": "0" * 62}, "catalogue_key"),
        ({"catalogue_url": "https://x.example/index.json", "catalogue_key": "key"}, "catalogue_key"),
    ],
)
def test_a_setting_that_cannot_work_starts_nothing(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        catalogue_of(Settings(**given), Path(), EgressClient(), ManualClock())
    assert refused.value.reason == reason
