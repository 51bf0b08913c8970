"""Whether a worker is the plugin that was started. Pure."""

from typing import Final

from bollard.host.workers.boundary import PluginSource
from bollard.protocol import JsonValue, PluginIdentity
from bollard.wire import IncompatiblePeer

_VERSION_CHARACTERS: Final = 64
"""Shown characters of a version, which may be a text of any length."""


def identity_problem(source: PluginSource, identity: PluginIdentity, version: str | None) -> IncompatiblePeer | None:
    """How the worker's introduction differs from the pinned plugin and from the version of its manifest. Pure."""
    plugin_id = f"{identity.author}/{identity.name}"
    if source.plugin_id is not None and plugin_id != source.plugin_id:
        sentence = f"the worker reports {plugin_id}, but {source.plugin_id} was started"
        return _refusal(sentence, "worker.other_plugin", "correct it", found=plugin_id, wanted=source.plugin_id)
    if source.digest is not None and identity.digest != source.digest:
        sentence = f"the worker's code is {identity.digest}, but {source.digest} was consented to"
        hint = "install the plugin again"
        return _refusal(sentence, "worker.other_code", hint, found=identity.digest, wanted=source.digest)
    if version is not None and identity.version != version:
        found = identity.version[:_VERSION_CHARACTERS]
        sentence = f"the worker states version {found!r}, but its manifest says {version}"
        hint = "report the version of manifest.yaml in `initialize`"
        return _refusal(sentence, "worker.other_version", hint, found=found, wanted=version)
    return None


def _refusal(sentence: str, problem_type: str, hint: str, **values: JsonValue) -> IncompatiblePeer:
    refused = IncompatiblePeer(sentence, hint)
    refused.details = {"problem_type": problem_type, **values}
    return refused
