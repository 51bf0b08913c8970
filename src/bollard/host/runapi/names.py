"""Names that runners give to things: what no store could keep as it is, is refused the same way over every store."""

from bollard.host.runapi.refusal import ApiRefused
from bollard.host.store.artifact_terms import ArtifactTerms, name_problem
from bollard.host.store.keys import key_problem

__all__ = ["check_key", "check_name", "check_type"]


def check_key(key: str, field: str = "key") -> None:
    """A key of state or storage, or the id of a call. Raises `ApiRefused`."""
    if (problem := key_problem(key)) is not None:
        raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})


def check_name(field: str, text: str) -> None:
    """A name that people will see, in one line. Raises `ApiRefused`."""
    if (problem := name_problem(text)) is not None:
        raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})


def check_type(terms: ArtifactTerms, mime_type: str) -> None:
    """A media type that artifacts may have. Raises `ApiRefused`."""
    if (problem := terms.type_problem(mime_type)) is not None:
        raise ApiRefused("invalid_argument", f"mime_type: {problem}", details={"field": "mime_type"})
