"""Reads the file `manifest.yaml` of a plugin: bounded, plain YAML, a mapping. What it says is judged by the worker.

Whoever starts workers needs one thing of it beforehand: which variables of its environment they ask for.
"""

from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from bollard.protocol import JsonObject, JsonValue, PluginSpec
from bollard.protocol.limits import KIB
from bollard.wire.plain_yaml import YamlError, load_plain_yaml

__all__ = ["MANIFEST_BYTES", "MANIFEST_NAME", "ManifestError", "declared_environment", "load_manifest"]

MANIFEST_NAME: Final = "manifest.yaml"
MANIFEST_BYTES: Final = 256 * KIB


class ManifestError(Exception):
    """There is no manifest that can be used: where it fails, why, and what to do."""

    def __init__(self, place: str, problem: str, hint: str, *, was_read: bool) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem
        self.hint = hint
        self.was_read = was_read
        """Whether there is such a file at all."""


def load_manifest(folder: Path) -> JsonObject:
    """The manifest of a plugin's folder as it stands there. Raises `ManifestError`."""
    data = _read(folder / MANIFEST_NAME)
    if len(data) > MANIFEST_BYTES:
        problem = f"is larger than {MANIFEST_BYTES} bytes"
        raise ManifestError(MANIFEST_NAME, problem, "make it smaller", was_read=True)
    try:
        value = load_plain_yaml(data)
    except YamlError as error:
        hint = "correct it; write plain YAML in UTF-8"
        raise ManifestError(error.place, error.problem, hint, was_read=True) from error
    if not isinstance(value, dict):
        hint = "start with apiVersion: bollard/v1"
        raise ManifestError(MANIFEST_NAME, "is not a mapping", hint, was_read=True)
    return cast("JsonObject", value)


def declared_environment(plugin: Path) -> tuple[str, ...]:
    """The variables that the manifest names in `spec.env`.

    None where there is no manifest, or one that cannot be used: the worker will say why.
    """
    try:
        spec = load_manifest(plugin).get("spec")
        named: JsonValue = spec.get("env", []) if isinstance(spec, dict) else []
        return PluginSpec.from_wire({"env": named}).env
    except (ManifestError, ValidationError):
        return ()


def _read(path: Path) -> bytes:
    """The file, and at most one byte more than it may have."""
    hint = "write one, or let `bollard plugin new` make one"
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ManifestError(MANIFEST_NAME, "is not a file", hint, was_read=False)
    try:
        with path.open("rb") as file:
            return file.read(MANIFEST_BYTES + 1)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise ManifestError(MANIFEST_NAME, problem, hint, was_read=False) from error
