"""Reading `manifest.yaml`: traps of YAML, fields, versions of Python. No plugin code runs here."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.tables import for_each

from bollard.manifest import PluginLoadError, admits_python, read_manifest
from bollard.manifest.text import MANIFEST_BYTES
from bollard.runtime import digest_of

HEAD = b"""apiVersion: bollard/v1
kind: Plugin
metadata:
  author: acme
  name: demo
  version: 1.0.0
  label: {en_US: Demo}
"""
GOOD = HEAD + b"spec:\n  runners:\n    - {name: default, label: {en_US: A}, entry: 'a:run'}\n"


def refused(folder: Path) -> Any:
    with pytest.raises(PluginLoadError) as caught:
        read_manifest(folder)
    problem = caught.value.problem
    assert problem.hint
    assert f"hint: {problem.hint}" in str(caught.value)
    return problem


def test_a_valid_manifest_is_read(write: Any) -> None:
    reading = read_manifest(write("p", {"manifest.yaml": GOOD}))
    assert (reading.metadata.author, [entry.name for entry in reading.runners]) == ("acme", ["default"])
    assert reading.problems == ()


def test_a_folder_without_a_manifest_is_refused(write: Any, tmp_path: Path) -> None:
    assert refused(write("p", {"runner.py": ""})).rule == "PL02"
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "manifest.yaml")
    assert (refused(tmp_path / "pipe").rule, refused(tmp_path / "pipe").field) == ("PL02", "manifest.yaml")
    (tmp_path / "folder" / "manifest.yaml").mkdir(parents=True)
    assert refused(tmp_path / "folder").rule == "PL02"


TRAPS = {
    "an alias": b"a: &x 1\nb: *x\n",
    "a billion laughs": b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "a duplicate key": b"kind: Plugin\nkind: Plugin\n",
    "a nested duplicate key": b"spec:\n  a: 1\n  a: 2\n",
    "a number as a key": b"1: a\n",
    "a boolean as a key": b"on: a\n",
    "a list as a key": b"[a]: b\n",
    "a mapping as a key": b"{a: b}: c\n",
    "a merge": b"a: {<<: {b: 1}}\n",
    "a python object": b"a: !!python/object/apply:os.system ['true']\n",
    "binary": b"a: !!binary aGk=\n",
    "an explicit date": b"a: !!timestamp 2020-01-01\n",
    "a broken date": b"a: !!timestamp x\n",
    "a broken boolean": b"a: !!bool x\n",
    "a broken integer": b"a: !!int ''\n",
    "a set": b"a: !!set {b}\n",
    "a tag of its own": b"a: !mine b\n",
    "the bare tag": b"a: ! b\n",
    "a tab": b"a:\n\tb: 1\n",
    "an open quote": b'a: "b\n',
    "two documents": b"a: 1\n---\nb: 2\n",
    "no mapping": b"- a\n",
    "nothing": b"",
    "a scalar": b"5",
    "control characters": b"a: \x00\n",
    "bytes that are not UTF-8": b"a: \xff\xfe\n",
    "UTF-16": "a: 1\n".encode("utf-16"),
    "deep nesting": b"a: " + b"[" * 5000 + b"]" * 5000,
    "a deep mapping": b"a: " + b"{a: " * 5000 + b"}" * 5000,
}


@pytest.mark.parametrize("text", TRAPS.values(), ids=TRAPS.keys())
def test_yaml_with_advanced_features_is_refused(write: Any, text: bytes) -> None:
    problem = refused(write("p", {"manifest.yaml": text}))
    assert (problem.rule, problem.where, bool(problem.field)) == ("PL03", "manifest.yaml", True)


def test_the_line_of_an_error_is_named(write: Any) -> None:
    problem = refused(write("p", {"manifest.yaml": b"a: 1\nb: 2\na: 3\n"}))
    assert (problem.field, problem.problem) == ("line 3", "the key 'a' stands twice")


def test_a_manifest_of_256_kibibytes_is_read_and_one_byte_more_is_not(write: Any) -> None:
    room = MANIFEST_BYTES - len(GOOD) - 1
    assert read_manifest(write("p", {"manifest.yaml": GOOD + b"#" * room + b"\n"})).runners
    problem = refused(write("q", {"manifest.yaml": GOOD + b"#" * (room + 1) + b"\n"}))
    assert (problem.rule, problem.field) == ("PL03", "manifest.yaml")


def test_dates_and_a_byte_order_mark_are_read_as_text(write: Any) -> None:
    text = b"\xef\xbb\xbf" + GOOD.replace(b"1.0.0", b"2020-01-01")
    assert read_manifest(write("p", {"manifest.yaml": text})).metadata.version == "2020-01-01"


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b"bollard/v1", b"bollard/v2", "apiVersion"),
        (b"kind: Plugin", b"kind: Other", "kind"),
        (b"kind: Plugin\n", b"", "kind"),
        (b"author: acme", b"author: Acme", "metadata.author"),
        (b"name: demo", b"name: d\xd0\xb5mo", "metadata.name"),
        (b"name: demo", b"name: no", "metadata.name"),
        (b"name: demo", b'name: "demo\\n"', "metadata.name"),
        (b"name: demo", b"name: ../demo", "metadata.name"),
        (b"name: demo", b"name: " + b"x" * 65, "metadata.name"),
        (b"version: 1.0.0", b"version: 1.0", "metadata.version"),
        (b"version: 1.0.0", b"version: latest", "metadata.version"),
        (b"{en_US: Demo}", b"{zh_Hans: Demo}", "metadata.label"),
        (b"{en_US: Demo}", b"Demo", "metadata.label"),
        (b"metadata:", b"more: 1\nmetadata:", "more"),
        (b"spec:", b"spec:\n  env: [A-B]", "spec.env.0"),
        (b"spec:", b"spec:\n  extra: 1", "spec.extra"),
    ],
)
def test_the_fields_of_the_plugin_are_strict(write: Any, old: bytes, new: bytes, field: str) -> None:
    assert old in GOOD
    problem = refused(write("p", {"manifest.yaml": GOOD.replace(old, new, 1)}))
    assert (problem.rule, problem.field) == ("PL04", field)


@pytest.mark.parametrize(
    "spec", [b"spec: []\n", b"spec: 5\n", b""], ids=["a list as spec", "a number as spec", "no spec"]
)
def test_a_manifest_needs_a_spec(write: Any, spec: bytes) -> None:
    problem = refused(write("p", {"manifest.yaml": HEAD + spec}))
    assert (problem.rule, problem.field) == ("PL04", "spec")


@pytest.mark.requirement("P02-12")
def test_one_invalid_entry_hides_no_other(write: Any) -> None:
    text = b"""spec:
  runners:
    - {name: good, label: {en_US: A}, entry: 'a:run'}
    - {name: Bad, label: {en_US: A}, entry: 'a:run'}
    - {name: nolabel, entry: 'a:run'}
    - {name: noentry, label: {en_US: A}}
    - {name: file, label: {en_US: A}, entry: 'a.py'}
    - {name: extra, label: {en_US: A}, entry: 'a:run', more: 1}
    - {name: right, label: {en_US: A}, entry: 'a:run', permissions: {models: [everything]}}
    - {name: able, label: {en_US: A}, entry: 'a:run', capabilities: {streaming: "yes"}}
    - 5
    - null
    - {name: good, label: {en_US: B}, entry: 'a:other'}
    - {name: also, label: {en_US: A}, entry: 'a.b.c:run'}
  tools:
    - {name: fine, description: d, entry: 'a:fine'}
    - {name: mute, entry: 'a:fine'}
    - {name: risky, description: d, entry: 'a:fine', risk: huge}
    - {name: fine, description: e, entry: 'a:fine'}
"""
    reading = read_manifest(write("p", {"manifest.yaml": HEAD + text}))
    assert [entry.name for entry in reading.runners] == ["good", "also"]
    assert [entry.name for entry in reading.tools] == ["fine"]
    assert [(problem.rule, problem.where, problem.field) for problem in reading.problems] == [
        ("PL10", "Bad", "name"),
        ("PL10", "nolabel", "label"),
        ("PL10", "noentry", "entry"),
        ("PL10", "file", "entry"),
        ("PL10", "extra", "more"),
        ("PL10", "right", "permissions.models.0"),
        ("PL10", "able", "capabilities.streaming"),
        ("PL10", "spec.runners[8]", "(whole)"),
        ("PL10", "spec.runners[9]", "(whole)"),
        ("PL20", "mute", "description"),
        ("PL20", "risky", "risk"),
        ("PL14", "good", "name"),
        ("PL14", "fine", "name"),
    ]
    assert all(problem.hint for problem in reading.problems)


def test_invalid_and_overlong_lists_are_problems(write: Any) -> None:
    reading = read_manifest(write("p", {"manifest.yaml": HEAD + b"spec:\n  runners: {}\n  tools:\n"}))
    assert [(problem.rule, problem.field) for problem in reading.problems] == [
        ("PL10", "spec.runners"),
        ("PL20", "spec.tools"),
    ]
    entries = b"".join(b"    - {name: r%d, label: {en_US: A}, entry: 'a:run'}\n" % number for number in range(70))
    long = read_manifest(write("q", {"manifest.yaml": HEAD + b"spec:\n  runners:\n" + entries}))
    assert (len(long.runners), [problem.field for problem in long.problems]) == (64, ["spec.runners"])


@for_each(
    ("specifier", "fits"),
    [
        (">=3.11", True),
        (">=3.11.4", True),
        (">=3.11.5", False),
        (">=3.11,<4", True),
        (" >= 3.11 , < 4 ", True),
        (">=3.12", False),
        ("<3.12", True),
        ("<3.11", False),
        ("<=3.11", True),
        ("<=3.11.3", False),
        ("==3.11", True),
        ("==3.11.4", True),
        ("==3.11.5", False),
        ("!=3.11", False),
        ("!=3.12", True),
        (">3.10", True),
        (">3.11", False),
        (">3", False),
        (">=3", True),
        ("~=3.11", False),
        ("==3.11.*", False),
        ("3.11", False),
        (">=three", False),
        (">=3.11,", False),
        ("", False),
        (">=" + "9" * 5000, False),
    ],
)
def test_a_python_requirement_is_checked(specifier: str, fits: bool) -> None:
    assert admits_python(specifier, (3, 11, 4)) is fits


def test_a_plugin_for_another_python_is_refused(write: Any) -> None:
    problem = refused(write("p", {"manifest.yaml": GOOD.replace(b"spec:", b"spec:\n  python: '>=99'")}))
    assert (problem.rule, problem.field) == ("PL05", "spec.python")
    reading = read_manifest(write("q", {"manifest.yaml": GOOD.replace(b"spec:", b"spec:\n  python: '>=3.11,<99'")}))
    assert reading.runners


def test_a_digest_is_the_same_for_a_copy_and_changes_with_names_and_content(write: Any, tmp_path: Path) -> None:
    files = {"manifest.yaml": b"a", "runner.py": b"b", "sub/data.bin": b"\0\xff"}
    digest = digest_of(write("one", files))
    assert digest == digest_of(write("two", dict(reversed(files.items()))))
    caches = {
        "__pycache__/runner.cpython-311.pyc": b"x",
        "sub/__pycache__/y.pyc": b"y",
        ".git/HEAD": b"z",
        ".hidden": b"h",
        ".venv/bin/python": b"p",
    }
    assert digest == digest_of(write("three", {**files, **caches}))
    different = [
        {**files, "runner.py": b"c"},
        {**files, "more.py": b""},
        {"manifest.yaml": b"a", "runners.py": b"b", "sub/data.bin": b"\0\xff"},
        {"manifest.yaml": b"a", "runner.py": b"b", "data.bin": b"\0\xff"},
        {"manifest.yaml": b"ab", "runner.py": b"", "sub/data.bin": b"\0\xff"},
        {**files, "sourceless.pyc": b"x"},
    ]
    digests = {digest_of(write(f"other-{number}", changed)) for number, changed in enumerate(different)}
    assert len(digests | {digest}) == len(different) + 1
    one_file = tmp_path / "one" / "runner.py"
    assert digest_of(one_file) != digest
    odd = tmp_path / "one" / os.fsdecode(b"not-utf8-\xff")
    odd.touch()
    assert digest_of(tmp_path / "one") != digest


def test_an_unreadable_file_is_a_problem_with_its_name(write: Any) -> None:
    folder = write("p", {"manifest.yaml": GOOD})
    (folder / "odd.bin").symlink_to("/proc/self/mem")
    with pytest.raises(PluginLoadError) as caught:
        digest_of(folder)
    assert (caught.value.problem.rule, caught.value.problem.field) == ("PL01", "odd.bin")
