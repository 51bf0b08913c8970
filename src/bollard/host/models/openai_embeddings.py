"""Embeddings: texts to `/embeddings` in batches, vectors back as base64 or as lists of numbers."""

import array
import base64
import binascii
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from bollard.host.errors import caused_by
from bollard.host.models.boundary import Vectors
from bollard.host.models.endpoint import Endpoint
from bollard.host.models.failures import ProviderError, failed
from bollard.host.models.formats import UnsupportedModel, arguments_of
from bollard.host.models.limits import EMBED_BATCH_CHARACTERS, EMBED_BATCH_TEXTS, EMBED_DIMENSIONS
from bollard.host.models.openai_chat import bearer
from bollard.host.models.specs import SavedModel
from bollard.protocol import JsonObject

_PATH: Final = "/embeddings"


class _Vector(msgspec.Struct):
    index: int
    embedding: str | list[float]


class _Vectors(msgspec.Struct):
    data: list[_Vector] | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Vectors).decode
"""Does not use the strict parser: a batch has more numbers than a frame may hold values. This module checks every
value."""


class Embedder(UnsupportedModel):
    """An embedding model. Implements `ModelBackend`."""

    def __init__(self, endpoint: Endpoint, spec: SavedModel) -> None:
        self._endpoint = endpoint
        self._spec = spec

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:
        if not texts:
            raise failed("invalid_request", "there are no texts", "model.no_texts", hint="send at least one")
        found: list[bytes] = []
        for batch in batches_of(texts):
            # base64 has a quarter of the size of numbers as text; a server that does not support it sends numbers.
            body: JsonObject = {"model": self._spec.model, "input": [*batch], "encoding_format": "base64"}
            body |= arguments_of(self._spec)
            body = {name: value for name, value in body.items() if value is not None}
            async with self._endpoint.asked(_PATH, body, bearer(key), key) as answer:
                found += read_vectors(await answer.whole(), len(batch))
        return Vectors(_dimensions(found, self._spec.extra_args.get("dimensions")), tuple(found))

    async def close(self) -> None:
        await self._endpoint.close()


def batches_of(texts: Sequence[str]) -> Iterator[list[str]]:
    """Batches in order, each as large as a request allows."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) >= EMBED_BATCH_TEXTS or size + len(text) > EMBED_BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def read_vectors(answer: bytes, texts: int) -> list[bytes]:
    """One vector per text, in their order. Raises `ModelFailed` and `ProviderError`."""
    try:
        body = _decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        inner = caused_by(error)
        raise failed("broken_answer", f"cannot parse the answer: {error}", "model.unreadable", inner=inner) from None
    if body.error:
        raise ProviderError.read(body.error)
    found = {each.index: _packed(each.embedding) for each in body.data or ()}
    if len(body.data or ()) != texts or found.keys() != set(range(texts)):
        message = f"the answer does not have one vector for each of the {texts} texts"
        raise failed("broken_answer", message, "model.vectors", count=texts)
    return [found[index] for index in range(texts)]


def _packed(embedding: str | list[float]) -> bytes:
    """Little-endian float32."""
    try:
        values = array.array("f", embedding) if isinstance(embedding, list) else _unpacked(embedding)
    except (binascii.Error, ValueError, OverflowError):
        message = "a vector in the answer is neither numbers nor base64"
        raise failed("broken_answer", message, "model.vector") from None
    if not 0 < len(values) <= EMBED_DIMENSIONS or not all(map(math.isfinite, values)):
        message = "a vector in the answer is empty, too long, or contains NaN or infinity"
        raise failed("broken_answer", message, "model.vector_values")
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _unpacked(text: str) -> "array.array[float]":
    values = array.array("f")
    values.frombytes(base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _dimensions(vectors: Iterable[bytes], wanted: object) -> int:
    sizes = {len(vector) // 4 for vector in vectors}
    if len(sizes) != 1 or (isinstance(wanted, int) and sizes != {wanted}):
        message = f"the vectors have {sorted(sizes)} dimensions instead of the requested size"
        raise failed("broken_answer", message, "model.dimensions", sizes=", ".join(map(str, sorted(sizes))))
    return sizes.pop()
