"""The description of a plugin before any of its code runs, and the object of a consent."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.errors import ConsentNeeded, InvalidRequest
from bollard.host.plugins.description import RequestedAccess, describe
from bollard.host.plugins.installation import (
    Installed,
    Version,
    check_consent,
    compare,
    consent_for,
    lookalike,
    skeleton,
)

DIGEST = "0" * 64


def test_a_folder_declares_its_requests_in_its_manifest(write_folder: Any) -> None:
    said = describe(write_folder(permissions="{history: [page], models: [stream, invoke]}", env="[ACME_KEY, A]"))
    assert (said.plugin_id, said.version) == ("acme/parrot", "1.0.0")
    assert said.access.runners == (("default", ("history.page", "models.invoke", "models.stream")),)
    assert said.access.env == ("A", "ACME_KEY")
    assert RequestedAccess.from_wire(said.access.to_wire()) == said.access


def test_reading_a_plugin_does_not_run_its_code(write_file: Any, write_folder: Any) -> None:
    describe(write_file("loud.py", "import sys\nsys.bollard_was_here = True\n" + SINGLE))
    describe(write_folder(files={**FOLDER, "runner.py": b"import sys\nsys.bollard_was_here = True\n"}))
    assert not hasattr(sys, "bollard_was_here")


SINGLE = """
from bollard import sdk
from bollard.sdk import runner, tool

@runner(label="One", permissions={"history": ["page"], "models": ("stream",)})
async def one(ctx):
    yield ctx.delta("one")

@sdk.runner("second", permissions={})
class Two:
    async def run(self, ctx):
        yield ctx.delta("two")

@tool(name="count", risk="low")
def count_words(text: str) -> int:
    return 0

@tool()
def other(text: str) -> int:
    return 0
"""
FOLDER = {
    "manifest.yaml": b"""
apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: parrot, version: 1.0.0, label: {en_US: Parrot}}
spec:
  runners:
    - {name: default, label: {en_US: P}, entry: "runner:parrot"}
    - {name: broken, label: nothing, entry: 7}
  tools:
    - {name: count, description: Count, entry: "runner:count", risk: low}
    - {name: talk, description: Talk, entry: "runner:talk"}
"""
}


def test_a_single_file_declares_its_requests_in_its_decorators(write_file: Any) -> None:
    said = describe(write_file("My-Tools.py", SINGLE))
    assert said.plugin_id == "local/my-tools"
    assert said.access.runners == (("default", ("history.page", "models.stream")), ("second", ()))
    assert said.access.tools == (("count", "low"), ("other", "unknown"))


def test_a_broken_entry_hides_no_other(write_folder: Any) -> None:
    said = describe(write_folder(files=FOLDER))
    assert said.access.runners == (("default", ()),)
    assert said.access.tools == (("count", "low"), ("talk", "unknown"))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("MINE = {}\n@runner(permissions=MINE)\nasync def f(ctx): ...", "is not a literal"),
        ("@runner(name=str(1))\nasync def f(ctx): ...", "is not a literal"),
        ("@runner(permissions={'history': ['rewrite']})\nasync def f(ctx): ...", "permissions of f"),
        ("@runner(permissions={'secrets': ['read']})\nasync def f(ctx): ...", "permissions of f"),
        ("@tool(risk='lwo')\ndef f(): ...", "the risk 'lwo' of f is none of low, medium, high, critical"),
        ("@tool(risk=['low'])\ndef f(): ...", "is none of"),
        ("def f(:", "cannot be read"),
        ("x = 1", "[a-z]+.py: it declares no usable runner or tool"),
        ("(" * 5000, "cannot be read"),
    ],
)
def test_an_unreadable_single_file_is_refused(write_file: Any, code: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        describe(write_file("plugin.py", code))
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "pаrrot",
        "ｐarrot",
        "parrót",
        "Parrot",
        "par rot",
        "parrot\u200b",
        "parrot\u202e",
        "parrot\U000e0041",
        "../parrot",
        "par/rot",
        "",
        "x" * 200,
        ".parrot",
        "ραrrot",
    ],
)
def test_a_name_of_another_script_or_with_hidden_characters_is_refused(write_folder: Any, name: str) -> None:
    manifest = FOLDER["manifest.yaml"].replace(b"name: parrot", f'name: "{name}"'.encode())
    with pytest.raises(InvalidRequest):
        describe(write_folder(files={"manifest.yaml": manifest}))
    author = FOLDER["manifest.yaml"].replace(b"author: acme", f'author: "{name}"'.encode())
    with pytest.raises(InvalidRequest):
        describe(write_folder("other", files={"manifest.yaml": author}))


@for_each(
    ("one", "other"),
    [
        ("acme/parrot", "acme/parr0t"),
        ("acme/modem", "acme/modern"),
        ("acme/my-tool", "acme/my_tool"),
        ("acme/my-tool", "acme/my.tool"),
        ("acme/tool1", "acme/tooll"),
        ("acme/wow", "acme/vvow"),
        ("acme/echo", "evil/echo"),
        ("acme/echo", "evil/ech0"),
    ],
)
def test_names_that_look_alike_are_found(one: str, other: str) -> None:
    assert lookalike(one, ["some/thing", other]) == other
    assert lookalike(other, [one]) == one


def test_names_that_do_not_look_alike_are_not() -> None:
    assert lookalike("acme/parrot", ["acme/parrots", "acme/carrot", "acme/parrot"]) is None
    assert skeleton("echo") != skeleton("ocho")


def described(write_folder: Any, **more: Any) -> Any:
    folder: Path = write_folder(**more)
    return describe(folder)


def test_an_install_needs_the_consent_for_its_digest(write_folder: Any) -> None:
    said = described(write_folder, permissions="{history: [page]}", env="[ACME_KEY]")
    with pytest.raises(ConsentNeeded) as caught:
        check_consent(DIGEST, said, None, None)
    details = caught.value.details
    assert details["change"] == {
        "added": ["env ACME_KEY", "runner default", "runner default: history.page"],
        "removed": [],
    }
    assert details["asks"] == {"runners": {"default": ["history.page"]}, "env": ["ACME_KEY"], "tools": {}}
    check_consent(DIGEST, said, None, str(details["consent"]))
    with pytest.raises(ConsentNeeded):
        check_consent("1" * 64, said, None, str(details["consent"]))


def test_an_update_needs_consent_only_for_more_permissions(write_folder: Any) -> None:
    narrow = described(write_folder, permissions="{history: [page]}")
    wide = described(write_folder, permissions="{history: [page, search]}", env="[KEY]")
    assert check_consent(DIGEST, narrow, wide.access, None).removed == ("env KEY", "runner default: history.search")
    assert not check_consent(DIGEST, narrow, narrow.access, None).widens
    with pytest.raises(ConsentNeeded) as caught:
        check_consent(DIGEST, wide, narrow.access, None)
    assert caught.value.details["change"] == {"added": ["env KEY", "runner default: history.search"], "removed": []}
    check_consent(DIGEST, wide, narrow.access, consent_for(DIGEST, wide))


def test_a_riskier_tool_widens_the_access() -> None:
    low, high = RequestedAccess(tools=(("rm", "low"),)), RequestedAccess(tools=(("rm", "high"),))
    assert compare(low, high).added == ("tool rm (high)",)
    assert compare(high, low).widens  # it is shown: the user who consented to the old word reads the new one


def test_a_saved_plugin_reads_back_the_same() -> None:
    version = Version(
        digest=DIGEST, version="1", access=RequestedAccess(env=("A",)), consented_by="user:ann", consented_ms=5
    )
    installed = Installed(workspace="w", author="acme", name="parrot", current=version, source="parrot.zip")
    for number in range(8):
        other = Version(
            digest=f"{number}" * 64, version="2", access=RequestedAccess(), consented_by="x", consented_ms=6
        )
        installed = installed.with_version(other)
    assert [each.digest[0] for each in installed.earlier] == ["6", "5", "4", "3"]
    assert installed.revision == 9
    assert Installed.from_wire(installed.to_wire(), "w", 9) == installed
