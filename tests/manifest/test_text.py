"""The part of a manifest that is read before a worker starts: its environment variables."""

import os
from pathlib import Path

import pytest

from bollard.manifest.text import MANIFEST_BYTES, MANIFEST_NAME, ManifestError, declared_environment, load_manifest


def plugin(folder: Path, text: str) -> Path:
    (folder / MANIFEST_NAME).write_text(text, encoding="utf-8")
    return folder


def test_the_names_of_the_manifest_are_declared_whatever_else_is_wrong_with_it(tmp_path: Path) -> None:
    text = "apiVersion: unknown\nspec:\n  env: [PARROT_KEY, TZ]\n  runners: nonsense\n"
    assert declared_environment(plugin(tmp_path, text)) == ("PARROT_KEY", "TZ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "spec: 1",
        "spec: {}",
        "spec: {env: null}",
        "spec: {env: PARROT_KEY}",
        "spec: {env: [PARROT_KEY, 1]}",
        "spec: {env: ['A=B']}",
        "spec: {env: ['']}",
        "spec: {env: [A], env: [B]}",
        "spec: &x {env: [A]}\nmore: *x",
        "spec: {env: [A]}\n" + "#" * MANIFEST_BYTES,
    ],
)
def test_a_manifest_that_cannot_be_used_declares_nothing(tmp_path: Path, text: str) -> None:
    assert declared_environment(plugin(tmp_path, text)) == ()


def test_a_plugin_without_a_manifest_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "parrot.py").write_text("")
    assert declared_environment(tmp_path) == ()
    assert declared_environment(tmp_path / "parrot.py") == ()
    assert declared_environment(tmp_path / "nowhere") == ()
    os.mkfifo(tmp_path / MANIFEST_NAME)
    assert declared_environment(tmp_path) == (), "nobody waits for a pipe"


def test_an_error_says_whether_there_is_a_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as missing:
        load_manifest(tmp_path)
    assert (missing.value.was_read, missing.value.place) == (False, MANIFEST_NAME)
    with pytest.raises(ManifestError) as broken:
        load_manifest(plugin(tmp_path, "a: 1\na: 2\n"))
    assert (broken.value.was_read, broken.value.place) == (True, "line 2")
    assert missing.value.hint
    assert broken.value.hint
