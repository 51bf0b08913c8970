"""The index of a catalogue: what is accepted, and that nothing unsigned is read."""

import json
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.catalogue.index import check_index, open_index, sign_index
from bollard.host.catalogue.sources import BundledSource
from bollard.host.errors import CatalogueUnavailable
from bollard.host.limits import CATALOGUE_BYTES, CATALOGUE_ITEMS
from bollard.host.plugins.description import describe
from bollard.host.plugins.uploads import bundled_root
from bollard.host.skills.skill import read_skill_text
from bollard.trust.keys import SigningKey

KEY, OTHER = SigningKey(b"k" * 32), SigningKey(b"o" * 32)
PLUGIN: dict[str, Any] = {
    "item_id": "aid",
    "kind": "plugin",
    "name": "local/aid",
    "version": "0",
    "label": {"en_US": "Aid"},
    "description": {"en_US": "Helps."},
    "readme": {"en_US": {"path": "aid.md", "sha256": "a" * 64}},
    "content": {"path": "aid.zip", "sha256": "b" * 64},
}
SERVER = {**PLUGIN, "kind": "mcp_server", "name": "aid", "content": None, "server": {"command": "aid"}}


def index_of(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"format": 1, "name": "Ours", "issued_at": 1795000000, "items": [*items], **more}


def signed(index: dict[str, Any], key: SigningKey = KEY) -> dict[str, Any]:
    return dict(sign_index(check_index(index), key).to_wire())


def opened(document: Any) -> Any:
    return open_index(json.dumps(document).encode(), KEY.verify_key)


def test_a_signed_index_is_read_also_after_its_text_was_formatted() -> None:
    document = signed(index_of(PLUGIN, {**SERVER, "item_id": "server"}))
    assert [item.item_id for item in opened(document).items] == ["aid", "server"]
    pretty = json.dumps(document, indent=4, sort_keys=True).encode()
    assert open_index(pretty, KEY.verify_key).find("aid") is not None


@for_each(
    ("change", "reason"),
    [
        (lambda document: document["index"]["items"][0].update(name="evil/aid"), "signature"),
        (lambda document: document["index"].update(issued_at=1), "signature"),
        (lambda document: document.update(signature="0" * 128), "signature"),
        (lambda document: document.update(signature=signed(index_of(PLUGIN), OTHER)["signature"]), "signature"),
        (lambda document: document.pop("signature"), "invalid"),
        (lambda document: document.update(signature="zz"), "invalid"),
        (lambda document: document["index"].update(issued_at=1e400), "not_json"),
    ],
)
def test_a_changed_index_is_refused(change: Any, reason: str) -> None:
    document = signed(index_of(PLUGIN))
    change(document)
    with pytest.raises(CatalogueUnavailable) as refused:
        opened(document)
    assert refused.value.reason == reason


def test_a_signature_for_something_else_is_none_of_an_index() -> None:
    index = check_index(index_of(PLUGIN)).to_wire()
    signature = KEY.sign(json.dumps(index, sort_keys=True, separators=(",", ":")).encode()).hex()
    with pytest.raises(CatalogueUnavailable, match="is not signed with the key"):
        opened({"index": index, "signature": signature})


@for_each(
    ("item", "problem"),
    [
        ({"kind": "theme"}, "items.0.kind"),
        ({"content": None}, "items.aid: an item of the kind plugin has content, and no server"),
        ({"server": {"command": "aid"}}, "has content, and no server"),
        ({"kind": "mcp_server"}, "has server, and no content"),
        ({"content": {"path": "../aid.zip"}}, "items.0.content.path"),
        ({"content": {"path": "/etc/passwd"}}, "items.0.content.path"),
        ({"content": {"path": "https://evil.example/aid.zip"}}, "items.0.content.path"),
        ({"content": {"path": "aid.zip?other"}}, "items.0.content.path"),
        ({"readme": {"fr_FR": {"path": "aid.md"}}}, "items.0.readme.fr_FR"),
        ({"item_id": "Aid"}, "items.0.item_id"),
        ({"price": 3}, "items.0.price: there is no such field"),
        ({"tags": ["x"] * 17}, "items.0.tags"),
    ],
)
def test_an_item_that_does_not_fit_refuses_the_index(item: dict[str, Any], problem: str) -> None:
    with pytest.raises(CatalogueUnavailable) as refused:
        check_index(index_of({**PLUGIN, **item}))
    assert refused.value.reason == "invalid"
    assert problem in refused.value.message


@for_each(
    ("server", "problem"),
    [
        ({"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer abc"}}, "a secret in plain text"),
        ({"command": "a", "url": "https://x.example/mcp"}, "either command or url"),
        ({"command": "a", "surprise": 1}, "there is no such field"),
        ({"url": "ftp://x.example/mcp"}, "url"),
    ],
)
def test_a_server_that_could_not_be_saved_refuses_the_index(server: dict[str, Any], problem: str) -> None:
    with pytest.raises(CatalogueUnavailable, match=problem):
        check_index(index_of({**SERVER, "server": server}))


def test_an_index_from_a_url_states_the_digest_of_each_file() -> None:
    document = signed(index_of({**PLUGIN, "readme": {"en_US": {"path": "aid.md"}}}))
    with pytest.raises(CatalogueUnavailable, match=r"items\.aid: aid\.md has no sha256"):
        opened(document)


def test_ids_are_unique_and_their_number_is_limited() -> None:
    with pytest.raises(CatalogueUnavailable, match="appears twice"):
        check_index(index_of(PLUGIN, PLUGIN))
    many = [{**PLUGIN, "item_id": f"aid-{number}"} for number in range(CATALOGUE_ITEMS + 1)]
    assert len(opened(signed(index_of(*many[:-1]))).items) == CATALOGUE_ITEMS
    with pytest.raises(CatalogueUnavailable, match="items"):
        check_index(index_of(*many))


@for_each(
    "data", [b"", b"[]", b"{", b'{"index": {}, "index": {}}', b"\xff", b'{"a": NaN}', b" " * (CATALOGUE_BYTES + 1)]
)
def test_bytes_that_are_no_index_are_refused(data: bytes) -> None:
    with pytest.raises(CatalogueUnavailable) as refused:
        open_index(data, KEY.verify_key)
    assert refused.value.reason in ("not_json", "invalid")


async def test_every_item_of_the_bundled_catalogue_is_there_and_is_what_the_index_says() -> None:
    source, root = BundledSource(bundled_root()), bundled_root()
    index = (await source.state()).index
    assert index is not None
    for item in index.items:
        assert {"en_US", "zh_Hans"} <= set(item.label) & set(item.description), item.item_id
        for file in item.readme.values():
            assert (await source.readme(file)).startswith("# "), item.item_id
        if item.kind == "plugin" and item.content is not None:
            described = describe(root / item.content.path)
            assert (described.plugin_id, described.version) == (item.name, item.version), item.item_id
        if item.kind == "skill":
            files = {file["path"]: file["text"] for file in (await source.skill(item))["files"]}  # type: ignore[index]
            assert read_skill_text(files["SKILL.md"].encode()).name == item.name
    assert {item.kind for item in index.items} == {"plugin", "skill", "mcp_server"}
