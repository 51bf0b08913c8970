"""Reads `manifest.yaml` of a plugin: bounded, plain YAML, a mapping. The worker validates its content.

The host reads only how the worker is started: its environment variables and its command.
"""

from dataclasses import dataclass, field
from errno import errorcode
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError

from bollard.protocol import JsonObject, PluginManifest, PluginSandbox, PluginSpec
from bollard.protocol.limits import KIB

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# PyYAML's composer and constructor are untyped where they are extended here.


class YamlError(Exception):
    """The text is not plain YAML. Carries the place and the problem. `details` holds the type of the place, and that of
    the problem unless the sentence is PyYAML's."""

    def __init__(self, place: str, problem: str, details: JsonObject) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
        self.details = details


class _NotPlain(ConstructorError):
    """YAML that a plain text must not have."""

    def __init__(self, problem: str, mark: Any, problem_type: str, **values: str) -> None:
        super().__init__(None, None, problem, mark)
        self.details: JsonObject = {"problem_type": problem_type, **values}


class _PlainLoader(yaml.SafeLoader):
    """Accepts YAML that maps to JSON: no aliases, tags, dates or duplicate keys, and text keys only.

    Aliases can expand a small file without bound, and YAML drops one of two equal keys silently.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise _NotPlain("aliases are not allowed", self.peek_event().start_mark, "yaml.alias")
        if self.peek_event().tag is not None:  # tags construct bytes, dates and other objects
            raise _NotPlain("tags are not allowed", self.peek_event().start_mark, "yaml.tag")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _NotPlain("a key must be text", key_node.start_mark, "yaml.key")
            if key in seen:
                raise _NotPlain(f"the key {key!r} stands twice", key_node.start_mark, "yaml.twice", key=key)
            seen.add(key)
        return super().construct_mapping(node, deep)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


_WHOLE: Final = "the file"
_WHOLE_PLACE: Final[JsonObject] = {"problem_type": "place.file"}


def load_plain_yaml(data: bytes) -> object:
    """Parse the single document in `data`. Raises `YamlError`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        details: JsonObject = {
            "problem_type": "json.encoding",
            "place": {"problem_type": "place.byte", "byte": error.start},
        }
        raise YamlError(f"byte {error.start}", "not UTF-8", details) from error
    try:
        return cast("object", yaml.load(text, Loader=_PlainLoader))  # noqa: S506 -- a SafeLoader with fewer features
    except yaml.MarkedYAMLError as error:
        details = error.details if isinstance(error, _NotPlain) else {}
        if error.problem_mark is None:
            raise YamlError(_WHOLE, error.problem or "not YAML", {**details, "place": _WHOLE_PLACE}) from error
        line = error.problem_mark.line + 1
        details = {**details, "place": {"problem_type": "place.line", "line": line}}
        raise YamlError(f"line {line}", error.problem or "not YAML", details) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        details = {"problem_type": "yaml.syntax", "place": _WHOLE_PLACE}
        raise YamlError(_WHOLE, f"not YAML: {type(error).__name__}", details) from error


MANIFEST_NAME: Final = "manifest.yaml"
MANIFEST_BYTES: Final = 256 * KIB


class ManifestError(Exception):
    """The manifest is missing or unusable. Carries the place, the problem and a hint."""

    def __init__(self, place: str, problem: str, hint: str, details: JsonObject, *, was_read: bool) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
        self.hint = hint
        self.details = details
        """The type of the problem and its values, by which a translation is found."""
        self.was_read = was_read
        """Whether the file exists and was read."""


def load_manifest(folder: Path) -> JsonObject:
    """Read the manifest in a plugin folder without validating its content. Raises `ManifestError`."""
    data = _read(folder / MANIFEST_NAME)
    if len(data) > MANIFEST_BYTES:
        problem = f"is larger than {MANIFEST_BYTES} bytes"
        details: JsonObject = {"problem_type": "yaml.too_large", "limit": MANIFEST_BYTES}
        raise ManifestError(MANIFEST_NAME, problem, "make it smaller", details, was_read=True)
    try:
        value = load_plain_yaml(data)
    except YamlError as error:
        hint = "correct it; write plain YAML in UTF-8"
        raise ManifestError(error.place, error.problem, hint, error.details, was_read=True) from error
    if not isinstance(value, dict):
        hint = "start with apiVersion: bollard/v1"
        details = {"problem_type": "yaml.not_a_mapping"}
        raise ManifestError(MANIFEST_NAME, "is not a mapping", hint, details, was_read=True)
    return cast("JsonObject", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredWorker:
    """How a manifest wants its worker to be started."""

    env: tuple[str, ...] = ()
    """Environment variables that the worker may see."""
    command: tuple[str, ...] = ()
    """The program and its arguments. Empty for the Python runtime."""
    plugin_id: str | None = None
    """Its `author/name`. `None` without a usable manifest."""
    version: str | None = None
    """The version that it must state. `None` without a usable manifest."""
    sandbox: PluginSandbox = field(default_factory=PluginSandbox)
    """What it needs beyond nothing."""


def declared_worker(plugin: Path) -> DeclaredWorker:
    """Return `spec.env`, `spec.command`, `spec.sandbox` and `metadata.version` of the manifest.

    Empty if the manifest is missing or unusable; the Python runtime, which is started then, reports the reason.
    """
    try:
        raw = load_manifest(plugin)
        spec = raw.get("spec")
        entries: JsonObject = spec if isinstance(spec, dict) else {}
        env = PluginSpec.from_wire({"env": entries.get("env", [])}).env
    except (ManifestError, ValidationError):
        return DeclaredWorker()
    try:
        frame: JsonObject = {**raw, "spec": {key: entries[key] for key in entries if key not in ("runners", "tools")}}
        manifest = PluginManifest.from_wire(frame)
        return DeclaredWorker(
            env=env,
            command=manifest.spec.command or (),
            plugin_id=f"{manifest.metadata.author}/{manifest.metadata.name}",
            version=manifest.metadata.version,
            sandbox=manifest.spec.sandbox or PluginSandbox(),
        )
    except ValidationError:
        return DeclaredWorker(env=env)


def _read(path: Path) -> bytes:
    """Read the file up to one byte more than the limit."""
    hint = "write one, let `bollard plugin new` make one, or name a Python file of the folder"
    if path.exists() and not path.is_file():  # opening a pipe would block
        details: JsonObject = {"problem_type": "plugin.not_a_file"}
        raise ManifestError(MANIFEST_NAME, "is not a file", hint, details, was_read=False)
    try:
        with path.open("rb") as file:
            return file.read(MANIFEST_BYTES + 1)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        details = {"problem_type": f"os.{errorcode.get(error.errno or 0, 'unknown')}"}
        raise ManifestError(MANIFEST_NAME, problem, hint, details, was_read=False) from error
