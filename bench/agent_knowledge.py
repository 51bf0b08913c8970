"""Knowledge through the host's side of its process: the speed of indexing and of queries."""

import asyncio
import logging
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import structlog
from agent_postgres import has_pgvector, vector_database
from figures import Figure, Measured, median
from host_postgres import NoServer, own_database

from bollard.host.knowledge.bases import SavedKnowledgeBase
from bollard.host.knowledge.boundary import KnowledgeEngine, NewDocument, Question
from bollard.host.knowledge.engine import ProcessEngine

__all__ = ["measure_knowledge", "measure_on_postgres"]

WORKSPACE = "default"
CHUNKS = 100_000
SHORT_TOKENS = 40
"""Words of a chunk of the large base. The cost of a search depends on the number of chunks more than on their
length."""
DOCUMENT_BYTES = 1 << 20
INDEX_S = 1800
PAUSE_S = 0.02


async def measure_knowledge(data: Path, *, quick: bool) -> list[Figure]:
    """On SQLite."""
    return await _measured(data, "", megabytes=6 if quick else 32, questions=60 if quick else 300)


async def measure_on_postgres(data: Path) -> Measured:
    """On the reachable PostgreSQL, and on one with pgvector. This takes minutes."""
    figures: list[Figure] = []
    missing: list[str] = []
    for number, (name, opened) in enumerate((("PostgreSQL", own_database), ("pgvector", vector_database))):
        folder = data / str(number)
        folder.mkdir()
        try:
            with opened() as url:
                found = await _measured(folder, url, megabytes=16, questions=200)
                told = "pgvector" if has_pgvector(url) else "PostgreSQL"
        except NoServer as error:
            print(f"{name} was not measured: {error}", file=sys.stderr, flush=True)
            missing.append(name)
        else:
            free = {"scope": "full", "must": None, "aim": None}  # the bounds are those of SQLite
            figures += [replace(figure, figure=f"{figure.figure}, {told}", **free) for figure in found]
    return Measured(figures=figures, missing=missing)


async def _measured(data: Path, database: str, *, megabytes: int, questions: int) -> list[Figure]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    engine = ProcessEngine(data=data, database=database)
    try:
        return [await _ingestion(engine, megabytes=megabytes), await _retrieval(engine, questions=questions)]
    finally:
        await engine.close()


async def _ingestion(engine: KnowledgeEngine, *, megabytes: int) -> Figure:
    """From the first document to the last ready one, with the chunks and embeddings of any base."""
    await engine.open_base(WORKSPACE, SavedKnowledgeBase(kb_id="warm"))
    await _put(engine, "warm", _documents(1, 1 << 16))  # the process starts and loads its model
    await _ready(engine, "warm")
    await engine.open_base(WORKSPACE, SavedKnowledgeBase(kb_id="text"))
    documents = list(_documents(megabytes, DOCUMENT_BYTES))
    started = time.perf_counter()
    await _put(engine, "text", iter(documents))
    await _ready(engine, "text")
    taken = time.perf_counter() - started
    size = sum(len(document.content) for document in documents) / 1e6
    return Figure(figure="ingestion of text", value=size / taken, unit="MB/s", better="higher", must=2.0, aim=5.0)


async def _retrieval(engine: KnowledgeEngine, *, questions: int) -> Figure:
    """Queries of four to nine words, some rare and some not, over a base that was queried before."""
    # Not validated: its chunks are shorter than a saved base allows.
    base = SavedKnowledgeBase.model_construct(kb_id="large", chunk_tokens=SHORT_TOKENS, overlap_tokens=0)
    await engine.open_base(WORKSPACE, base)
    number = chunks = 0
    while chunks < CHUNKS:
        await _put(engine, "large", _documents(4, DOCUMENT_BYTES, first=number))
        number += 4
        chunks = await _ready(engine, "large")
    chance = random.Random(11)
    taken: list[float] = []
    for index in range(questions + 5):
        asked = Question(query=_said(chance, 4 + index % 6), top_k=5)
        started = time.perf_counter()
        found = await engine.retrieve(WORKSPACE, "large", asked)
        taken.append((time.perf_counter() - started) * 1000)
        if not found:
            raise RuntimeError(f"nothing was found for {asked.query!r}")
    return Figure(
        figure=f"retrieval p50, {chunks // 1000} 000 chunks",
        value=median(taken[5:]),  # the first queries load caches
        unit="ms",
        better="lower",
        must=50.0,
        aim=20.0,
    )


async def _put(engine: KnowledgeEngine, kb_id: str, documents: Iterator[NewDocument]) -> None:
    for document in documents:
        await engine.put(WORKSPACE, kb_id, document)


async def _ready(engine: KnowledgeEngine, kb_id: str) -> int:
    """Wait until everything is indexed; returns the number of chunks."""
    async with asyncio.timeout(INDEX_S):
        while True:
            documents = await engine.documents(WORKSPACE, kb_id, "", 1000)
            if failed := [document for document in documents if document.status == "failed"]:
                raise RuntimeError(f"a document could not be indexed: {failed[0].error}")
            if all(document.status == "ready" for document in documents):
                return sum(document.chunks for document in documents)
            await asyncio.sleep(PAUSE_S)


def _documents(count: int, size: int, first: int = 0) -> Iterator[NewDocument]:
    """Markdown with headings and paragraphs, the same every time."""
    for number in range(first, first + count):
        chance = random.Random(number)
        parts: list[str] = []
        written = 0
        while written < size:
            section = [f"## {_said(chance, 2)}", *(f"{_said(chance, 60)}." for _ in range(4))]
            parts.append("\n\n".join(section))
            written += len(parts[-1]) + 2
        content = "\n\n".join(parts).encode()
        yield NewDocument(document_id=f"d{number:05d}", name=f"{number}.md", mime_type="text/markdown", content=content)


def _said(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_spoken(), k=words))


@cache
def _spoken() -> list[str]:
    """Every word of the documentation with its frequency: a few are everywhere and most are rare."""
    pages = sorted((Path(__file__).parent.parent / "docs").rglob("*.md"))
    return [word for page in pages for word in re.findall(r"[A-Za-z][a-z]+", page.read_text(encoding="utf-8"))]
