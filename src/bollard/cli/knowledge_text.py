"""Knowledge bases, documents and passages as a person reads them. What documents say cannot pretend to be the command
line."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from bollard.cli.columns import printable, shorten
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

__all__ = ["base_lines", "bases_table", "document_line", "documents_table", "passage_lines"]

_PASSAGE_CHARACTERS = 600


def base_lines(base: dict[str, Any], text: Text) -> Iterator[str]:
    """Everything about one base."""
    yield text("knowledge.head", base=base["kb_id"], name=printable(base["name"] or base["kb_id"]))
    if base["description"]:
        yield f"  {printable(base['description'])}"
    yield text("knowledge.cut", embedding=base["embedding"], chunk=base["chunk_tokens"], overlap=base["overlap_tokens"])
    yield text("knowledge.brings", flow=", ".join(base["flow"]) or text("knowledge.brings_nothing"))
    if base["rerank_model"] is not None:
        yield text("knowledge.reranked", model=printable(base["rerank_model"]))


def bases_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    table = plain_table()
    for name in ("base", "name", "about"):
        table.add_column(text(f"knowledge.column.{name}"), overflow="fold")
    for item in items:
        table.add_row(item["kb_id"], printable(item["name"]), printable(item["description"]))
    return table


def documents_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    table = plain_table()
    for name in ("document", "name", "status", "size"):
        table.add_column(text(f"knowledge.column.{name}"), overflow="fold")
    for item in items:
        table.add_row(item["document_id"], printable(item["name"]), _status(item, text), str(item["size_bytes"]))
    return table


def document_line(item: dict[str, Any], text: Text) -> str:
    """One document that was put: what became of it."""
    return text("knowledge.document_line", document=item["document_id"], status=_status(item, text))


def _status(item: dict[str, Any], text: Text) -> str:
    return text(
        f"knowledge.status.{item['status']}",
        chunks=item["chunks"],
        done=item["done_chunks"],
        error=printable(item["error"] or ""),
    )


def passage_lines(number: int, chunk: dict[str, Any], text: Text) -> Iterator[str]:
    """A passage, and where it comes from."""
    source: dict[str, Any] = chunk["source"]
    named = str(source.get("source") or source.get("name") or chunk["kb_id"])
    headings = " › ".join(map(str, source["headings"]))
    where = printable(f"{named} › {headings}" if headings else named)
    if source.get("page") is not None:
        where = text("knowledge.page", where=where, page=source["page"])
    yield text("knowledge.passage", number=number, where=where, score=f"{chunk['score']:.3f}")
    yield f"    {shorten(chunk['text'], _PASSAGE_CHARACTERS)}"
