"""`storage.*` and `files.get`: bytes in ranges, by plugin and by workspace."""

import base64
from hashlib import sha256
from typing import Any

import pytest

from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import NotFound, ToolFailed
from bollard.host.grants.check import NOT_FOUND
from bollard.host.run_api.artifacts import RunArtifacts


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def content_of(answer: dict[str, Any]) -> bytes:
    return base64.b64decode(answer["content_base64"])


async def test_bytes_are_stored_and_read_in_ranges(house: Any) -> None:
    run = await house.begin()

    first = await house.ask(run, "storage.set", area="plugin", key="k", content_base64=text64(b"0123456789"))
    middle = await house.ask(run, "storage.get", area="plugin", key="k", offset=2, length=3)
    tail = await house.ask(run, "storage.get", area="plugin", key="k", offset=7)
    behind = await house.ask(run, "storage.get", area="plugin", key="k", offset=2**53)

    assert first == {"existed": False}
    assert (content_of(middle), middle["size_bytes"], middle["has_more"]) == (b"234", 10, True)
    assert (content_of(tail), tail["has_more"]) == (b"789", False)
    assert (content_of(behind), behind["has_more"]) == (b"", False)


async def test_content_with_a_secret_of_the_workspace_is_not_stored(house: Any) -> None:
    run = await house.begin()
    secret = b"a-secret-of-the-workspace"
    house.redactor.add(run.facts.workspace, secret.decode())
    tool = RunArtifacts(lambda _: run, lambda *_: None, house.blobs)
    context = CallContext(run_id=run.facts.run_id, workspace=run.facts.workspace, agent_id="a")

    for content in (b"\xff binary: " + secret, base64.b64encode(secret)):
        refused = await house.refusal(run, "storage.set", area="plugin", key="k", content_base64=text64(content))
        assert refused.code == "invalid_argument"
        with pytest.raises(ToolFailed, match="secret"):
            await tool.write(context, call_id="c", name="n.txt", mime_type="text/plain", content=content)
        upload = await house.ask(run, "artifacts.begin", artifact_type="file", mime_type="text/plain", name="n")
        piece = {"upload_id": upload["upload_id"], "offset": 0, "content_base64": text64(content)}
        assert (await house.refusal(run, "artifacts.append", **piece)).code == "invalid_argument"
        with pytest.raises(NotFound):
            house.blobs.size(sha256(content).hexdigest())
    assert house.records(run, "storage.updated") == house.records(run, "artifact.created") == []
    await tool.write(context, call_id="c", name="n.txt", mime_type="text/plain", content=b"nothing secret")
    assert len(house.records(run, "artifact.created")) == 1


async def test_a_value_is_replaced_deleted_and_may_be_empty(house: Any) -> None:
    run = await house.begin()
    await house.ask(run, "storage.set", area="plugin", key="k", content_base64=text64(b"old"))

    replaced = await house.ask(run, "storage.set", area="plugin", key="k", content_base64="")
    empty = await house.ask(run, "storage.get", area="plugin", key="k")
    deleted = await house.ask(run, "storage.delete", area="plugin", key="k")
    again = await house.ask(run, "storage.delete", area="plugin", key="k")

    assert replaced == {"existed": True}
    assert (content_of(empty), empty["size_bytes"]) == (b"", 0)
    assert (deleted, again) == ({"existed": True}, {"existed": False})
    assert (await house.refusal(run, "storage.get", area="plugin", key="k")).code == "not_found"
    assert len(house.records(run, "storage.deleted")) == 1


@pytest.mark.requirement("P06-21")
async def test_a_plugin_has_its_own_area_and_the_workspace_is_shared(house: Any, make_agent: Any) -> None:
    run = await house.begin()
    sibling = await house.begin(make_agent("second"), conversation="other")
    stranger = await house.begin(make_agent(plugin="evil/parrot"))
    abroad = await house.begin(make_agent(workspace="second"))
    for area in ("plugin", "workspace"):
        await house.ask(run, "storage.set", area=area, key="k", content_base64=text64(area.encode()))

    async def seen(by: Any, area: str) -> list[str]:
        return (await house.ask(by, "storage.list", area=area))["keys"]

    assert await seen(sibling, "plugin") == ["k"]
    assert await seen(stranger, "plugin") == []
    assert await seen(stranger, "workspace") == ["k"]
    assert await seen(abroad, "plugin") == []
    assert await seen(abroad, "workspace") == []


async def test_keys_are_listed_by_prefix_in_pages(house: Any) -> None:
    run = await house.begin()
    for key in ("a%", "a%1", "a_", "ab", "b"):
        await house.ask(run, "storage.set", area="workspace", key=key, content_base64="")

    first = await house.ask(run, "storage.list", area="workspace", prefix="a", limit=2)
    second = await house.ask(run, "storage.list", area="workspace", prefix="a", limit=2, cursor=first["next_cursor"])
    plain = await house.ask(run, "storage.list", area="workspace", prefix="a%")

    assert (first["keys"], first["has_more"]) == (["a%", "a%1"], True)
    assert (second["keys"], second["has_more"]) == (["a_", "ab"], False)
    assert plain["keys"] == ["a%", "a%1"]


@pytest.mark.parametrize("action", ["storage.get", "storage.set", "storage.delete"])
async def test_an_invalid_key_is_refused(memory_house: Any, action: str) -> None:
    run = await memory_house.begin()
    more = {"content_base64": ""} if action == "storage.set" else {}

    refused = await memory_house.refusal(run, action, area="plugin", key="a\0", **more)

    assert (refused.code, refused.details) == ("invalid_argument", {"field": "key"})


async def test_a_file_of_the_grant_is_read_in_ranges(house: Any) -> None:
    run = await house.begin()
    house.put_artifact("manual", b"0123456789")

    piece = await house.ask(run, "files.get", file_id="manual", offset=8)

    assert (content_of(piece), piece["size_bytes"], piece["has_more"]) == (b"89", 10, False)


async def test_a_deleted_or_foreign_file_looks_like_an_unlisted_one(house: Any) -> None:
    run = await house.begin()
    house.put_artifact("unlisted", b"secret")
    unlisted = await house.refusal(run, "files.get", file_id="unlisted")

    gone = await house.refusal(run, "files.get", file_id="lost")
    house.put_artifact("lost", b"secret", source="runner")
    no_upload = await house.refusal(run, "files.get", file_id="lost")
    house.put_artifact("lost", b"secret", workspace="second")
    abroad = await house.refusal(run, "files.get", file_id="lost")

    assert unlisted.message == NOT_FOUND["files"].sentence
    assert {refused.bytes for refused in (gone, no_upload, abroad)} == {unlisted.bytes}
