"""Public keys as people give them on the command line: hex digits, or files that hold them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bollard.cli.errors import UsageProblem

if TYPE_CHECKING:
    from bollard.trust.keys import VerifyKey

__all__ = ["keys_of", "verifying"]


def keys_of(given: Sequence[str] | None) -> dict[str, str]:
    """By id, in hex. Raises `UsageProblem`."""
    from bollard.trust.keys import VerifyKey

    found: dict[str, str] = {}
    for each in given or ():
        try:
            text = Path(each).read_text(encoding="ascii").strip() if Path(each).is_file() else each
            key = VerifyKey(bytes.fromhex(text))
        except (OSError, ValueError) as error:
            raise UsageProblem("error.audit_key", "hint.audit_key", value=each[:80]) from error
        found[key.key_id] = key.public.hex()
    return found


def verifying(keys: Mapping[str, str]) -> "dict[str, VerifyKey]":
    """What checks signatures, by id. Raises `UsageProblem`."""
    from bollard.trust.keys import VerifyKey

    try:
        made = [VerifyKey(bytes.fromhex(each)) for each in keys.values()]
    except ValueError as error:
        raise UsageProblem("error.audit_key", "hint.audit_key", value=", ".join(keys)) from error
    return {key.key_id: key for key in made}
