"""Extras of the distribution: how a person installs one into this environment."""

import json


def install_command(extra: str) -> str:
    """The command that installs an extra: of a clone, or of an installed package."""
    return "make setup" if _is_clone() else f"pip install 'bollard[{extra}]'"


def _is_clone() -> bool:
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 -- workers start without it

    try:
        origin = distribution("bollard").read_text("direct_url.json")
    except PackageNotFoundError:
        return True  # the sources are on the path, and nothing is installed
    return origin is not None and bool(json.loads(origin).get("dir_info", {}).get("editable"))
