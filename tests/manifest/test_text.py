"""The part of a manifest that is read before a worker starts: its environment variables and its command."""

import os
from pathlib import Path

import pytest

from bollard.manifest.text import (
    MANIFEST_BYTES,
    MANIFEST_NAME,
    DeclaredWorker,
    ManifestError,
    declared_worker,
    load_manifest,
)

NOTHING = DeclaredWorker()
HEAD = """apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: parrot, version: "1", label: {en_US: Parrot}}
"""


def plugin(folder: Path, text: str) -> Path:
    (folder / MANIFEST_NAME).write_text(text, encoding="utf-8")
    return folder


def test_the_environment_of_the_manifest_is_declared_despite_other_errors(tmp_path: Path) -> None:
    text = "apiVersion: unknown\nspec:\n  env: [PARROT_KEY, TZ]\n  runners: nonsense\n"
    assert declared_worker(plugin(tmp_path, text)) == DeclaredWorker(env=("PARROT_KEY", "TZ"))


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
def test_an_unusable_manifest_declares_nothing(tmp_path: Path, text: str) -> None:
    assert declared_worker(plugin(tmp_path, text)) == NOTHING


def test_the_command_of_a_valid_manifest_is_declared(tmp_path: Path) -> None:
    text = f"{HEAD}spec:\n  command: [node, worker.mjs]\n  env: [TZ]\n  runners: nonsense\n"
    assert declared_worker(plugin(tmp_path, text)) == DeclaredWorker(
        env=("TZ",), command=("node", "worker.mjs"), version="1", plugin_id="acme/parrot"
    )
    broken = text.replace("kind: Plugin", "kind: Other")
    assert declared_worker(plugin(tmp_path, broken)) == DeclaredWorker(env=("TZ",))


@pytest.mark.parametrize(
    "command", ["[]", "node", "[1]", "['']", "[/bin/sh]", "[../node]", "[a/../../b]", '["a\\nb"]', '["a\\0"]']
)
def test_an_invalid_command_is_not_declared(tmp_path: Path, command: str) -> None:
    assert declared_worker(plugin(tmp_path, f"{HEAD}spec:\n  command: {command}\n")) == NOTHING


def test_a_plugin_without_a_manifest_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "parrot.py").write_text("")
    assert declared_worker(tmp_path) == NOTHING
    assert declared_worker(tmp_path / "parrot.py") == NOTHING
    assert declared_worker(tmp_path / "nowhere") == NOTHING
    os.mkfifo(tmp_path / MANIFEST_NAME)
    assert declared_worker(tmp_path) == NOTHING, "nobody waits for a pipe"


def test_an_error_distinguishes_a_missing_and_a_broken_file(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as missing:
        load_manifest(tmp_path)
    assert (missing.value.was_read, missing.value.place) == (False, MANIFEST_NAME)
    with pytest.raises(ManifestError) as broken:
        load_manifest(plugin(tmp_path, "a: 1\na: 2\n"))
    assert (broken.value.was_read, broken.value.place) == (True, "line 2")
    assert missing.value.hint
    assert broken.value.hint
