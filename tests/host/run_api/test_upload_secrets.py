"""A secret in the pieces of an upload is found wherever it is cut, and refused with the piece that completes it."""

import asyncio
import base64
import hashlib
import itertools
from typing import Any

from tests.host.run_api.conftest import Refused

SECRET = "CANARY-0123456789-ключ"


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def refused_at(house: Any, run: Any, *pieces: bytes) -> tuple[int | None, int]:
    """Which of the pieces of an upload is refused, and how much of it is here then."""
    upload, here = (await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"], 0
    for number, piece in enumerate(pieces):
        sent = {"upload_id": upload, "offset": here, "content_base64": text64(piece)}
        try:
            here = (await house.ask(run, "artifacts.append", **sent))["offset"]
        except Refused:
            return number, house.blobs.received(upload)
    return None, here


def cut(content: bytes, *at: int) -> list[bytes]:
    places = [0, *at, len(content)]
    return [content[first:behind] for first, behind in itertools.pairwise(places)]


async def test_a_secret_split_over_pieces_of_an_upload_is_refused_with_its_last_piece(memory_house: Any) -> None:
    run = await memory_house.begin()
    memory_house.redactor.add("default", SECRET)
    content = f"x {SECRET} y".encode()
    whole = 2 + len(SECRET.encode())

    for at in range(3, whole):
        assert await refused_at(memory_house, run, *cut(content, at)) == (1, at), "also within a character"
        await memory_house.end(run)
        run = await memory_house.begin()
    one_by_one = await refused_at(memory_house, run, *cut(content, *range(1, len(content))))
    coded = base64.b64encode(content)
    in_base64 = await refused_at(memory_house, run, *cut(coded, 9, 10, 20))

    assert one_by_one == (whole - 1, whole - 1)
    assert in_base64[0] is not None


async def test_an_upload_continues_without_a_refused_piece(memory_house: Any) -> None:
    run = await memory_house.begin()
    memory_house.redactor.add("default", SECRET)
    first, second = cut(SECRET.encode(), 7)
    upload = (await memory_house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]

    async def append(offset: int, piece: bytes) -> Any:
        call = memory_house.ask if piece is not second else memory_house.refusal
        return await call(run, "artifacts.append", upload_id=upload, offset=offset, content_base64=text64(piece))

    await append(0, first)
    refused = await append(len(first), second)
    again = await append(0, first + b" and ")  # the existing bytes, and more
    await append(again["offset"], b"no more")
    made = await memory_house.ask(run, "artifacts.finish", upload_id=upload, sha256=digest_of(first + b" and no more"))

    assert (refused.code, refused.message) == ("invalid_argument", "the content contains a secret of the workspace")
    assert made["size_bytes"] == len(first + b" and no more")


async def test_a_secret_split_over_a_repeated_piece_or_registered_later_is_refused(memory_house: Any) -> None:
    run = await memory_house.begin()
    first, second = cut(SECRET.encode(), 7)
    upload = (await memory_house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]
    await memory_house.ask(run, "artifacts.append", upload_id=upload, offset=0, content_base64=text64(first))
    memory_house.redactor.add("default", SECRET)

    for offset in range(len(first) + 1):
        piece = text64(first[offset:] + second)
        refused = await memory_house.refusal(
            run, "artifacts.append", upload_id=upload, offset=offset, content_base64=piece
        )
        assert refused.code == "invalid_argument"
    assert memory_house.blobs.received_bytes(upload) == first


async def test_concurrent_pieces_of_a_secret_are_checked_in_order(memory_house: Any) -> None:
    run = await memory_house.begin()
    memory_house.redactor.add("default", SECRET)
    pieces = cut(SECRET.encode(), 5, 9, 14)
    upload = (await memory_house.ask(run, "artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]
    places = list(itertools.accumulate((len(piece) for piece in pieces), initial=0))
    sent = list(zip(places, pieces, strict=False))

    for _ in range(len(pieces)):  # in any order, a piece after a gap is refused
        calls = [
            memory_house.ask(run, "artifacts.append", upload_id=upload, offset=at, content_base64=text64(piece))
            for at, piece in sent
        ]
        await asyncio.gather(*calls, return_exceptions=True)

    assert memory_house.blobs.received_bytes(upload) == b"".join(pieces[:-1])
