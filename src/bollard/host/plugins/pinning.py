"""Pins the definitions of a plugin's tools to what its first worker said."""

from msgspec.structs import replace

from bollard.host.plugins.consent import consent_needed, redefined
from bollard.host.plugins.fitting import Fitting
from bollard.host.plugins.installed import Installed, Version
from bollard.host.plugins.shelf import Shelved
from bollard.host.plugins.tool_definitions import definition_digests

__all__ = ["pinned"]


def pinned(installed: Installed, fitting: Fitting, shelved: Shelved, known: Version | None) -> Installed:
    """With the definitions of its tools pinned from here on. Where a tool of the version that is `known` is defined
    otherwise now, raises `ConsentNeeded`: the same name is not the same tool."""
    if fitting.pins is not None:
        return installed
    seen = definition_digests(fitting.usable_tools)
    change = redefined({} if known is None else dict(known.definitions or ()), seen)
    if known is not None and change.widens:
        raise consent_needed(shelved.digest, shelved.described, known.asked, change)
    fitting.pins = seen
    return replace(installed, current=replace(installed.current, definitions=tuple(sorted(seen.items()))))
