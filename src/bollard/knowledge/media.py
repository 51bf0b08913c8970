"""Which kind of document something is, by what its giver says of it. Pure."""

from typing import Final, Literal

__all__ = ["Kind", "charset_of", "kind_of"]

Kind = Literal["text", "markdown", "html", "pdf", "docx"]

_KINDS: Final[dict[str, Kind]] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/json": "text",
    "application/x-ndjson": "text",
    "application/yaml": "text",
    "application/x-yaml": "text",
    "application/toml": "text",
    "application/xml": "text",
}
_SUFFIXES: Final[dict[str, Kind]] = {
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
    "pdf": "pdf",
    "docx": "docx",
    "txt": "text",
    "text": "text",
    "csv": "text",
    "json": "text",
    "yaml": "text",
    "yml": "text",
    "rst": "text",
    "log": "text",
}
_VAGUE: Final = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream", "application/zip"})
"""Types that say nothing which the name does not say better."""


def kind_of(mime_type: str, name: str) -> Kind | None:
    """What to read it as; `None` for what nobody reads here."""
    plain = mime_type.partition(";")[0].strip().lower()
    if plain in _VAGUE:
        named = _SUFFIXES.get(name.rpartition(".")[2].lower()) if "." in name else None
        return named or ("text" if plain == "text/plain" else None)
    return _KINDS.get(plain) or ("text" if plain.startswith("text/") else None)


def charset_of(mime_type: str) -> str:
    """What follows `charset=`; empty where nothing does."""
    for parameter in mime_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'").lower()[:40]
    return ""
