"""A provider of models on this machine, for tests and for trying things out. It speaks OpenAI's chat, responses and
embeddings, Anthropic's messages and the common rerank, streams, and fails in each way that a test asks for.

python examples/provider/loopback_provider.py --port 0
"""

import argparse
import asyncio
import base64
import json
import re
import signal
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, cast

from scripted_answers import Answer, BadScript, Question, Scripts, default_answer, read_question, read_script
from vendor_formats import FORMATS, Format, error_body

__all__ = ["Provider"]

BODY_BYTES: Final = 64 * 1024 * 1024
HEAD_BYTES: Final = 64 * 1024
REMEMBERED: Final = 2_000
"""Requests that are kept for inspection."""
DIMENSIONS: Final = 64
CATCH_UP_S: Final = 0.001
"""A stream with a rate sleeps when it is ahead by this much."""
MODELS: Final = ("loopback", "loopback-small", "loopback-embedding", "loopback-rerank")


class Gone(Exception):
    """The client disconnected, or is disconnected."""


class Exchange:
    """One request and the connection of its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._early = b""
        """A byte of the next request that arrived during the last answer."""
        self.method = self.path = ""
        self.headers: dict[str, str] = {}
        self.body = b""

    async def read(self) -> bool:
        """Read the next request of the connection; false at its end."""
        try:
            head = self._early + await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return False
        self._early = b""
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        self.method, self.path, *_ = [*first.split(" "), "", ""]
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        written = self.headers.get("content-length", "0")
        length = int(written) if written.isdecimal() else BODY_BYTES + 1
        if length > BODY_BYTES:
            await self.answer(413, {"error": {"message": f"more than {BODY_BYTES} bytes"}})
            return False
        self.body = await self._reader.readexactly(length)
        return True

    async def answer(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        body = text.encode()
        fields = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        self._writer.write(_head(status, fields) + body)
        await self._writer.drain()

    async def begin_stream(self, headers: dict[str, str]) -> None:
        fields = {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
        self._writer.write(_head(200, fields | headers))
        await self._writer.drain()

    async def write(self, data: bytes, *, bytewise: bool = False) -> None:
        if self._writer.is_closing():
            raise Gone
        if bytewise:
            for index in range(len(data)):
                self._writer.write(b"1\r\n%b\r\n" % data[index : index + 1])
                await self._writer.drain()
                await asyncio.sleep(0)
        else:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._writer.drain()

    async def end_stream(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def client_gone(self) -> None:
        """Returns when the client closed its side."""
        with suppress(ConnectionError):
            self._early = await self._reader.read(1)
            if self._early:  # the client is connected, and has sent its next request
                await asyncio.Event().wait()

    def cut(self) -> None:
        self._writer.transport.abort()


def _head(status: int, fields: dict[str, str]) -> bytes:
    known = {one.value for one in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase if status in known else 'Status'}"]
    return ("\r\n".join([*lines, *(f"{name}: {value}" for name, value in fields.items())]) + "\r\n\r\n").encode()


class Provider:
    """Answers by script, then by the request; records the requests."""

    def __init__(self, key: str | None = None) -> None:
        self._key = key
        self._scripts = Scripts()
        self._seen: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        self._count = 0
        self._may_go = asyncio.Semaphore(0)
        """One event for each held answer: it may be released before it is reached."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request by request."""
        try:
            exchange = Exchange(reader, writer)
            while await exchange.read():
                if exchange.path.startswith("/_"):
                    await self._control(exchange)
                else:
                    await self._model_call(exchange)
        except (Gone, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _control(self, exchange: Exchange) -> None:
        match exchange.method, exchange.path:
            case "POST", "/_script":
                try:
                    given: object = json.loads(exchange.body)
                    scripts = cast("list[object]", given) if isinstance(given, list) else [given]
                    for answer in [read_script(script) for script in scripts]:
                        self._scripts.add(answer)
                except (BadScript, TypeError, ValueError) as error:
                    await exchange.answer(400, {"error": {"message": str(error)}})
                else:
                    await exchange.answer(200, {"waiting": len(self._scripts)})
            case "GET", "/_requests":
                await exchange.answer(200, {"requests": list(self._seen), "waiting": len(self._scripts)})
            case "POST", "/_go":
                self._may_go.release()
                await exchange.answer(200, {"waiting": len(self._scripts)})
            case "POST", "/_reset":
                self._scripts.clear()
                self._seen.clear()
                self._may_go = asyncio.Semaphore(0)
                await exchange.answer(200, {"waiting": 0})
            case _:
                known = "POST /_script, GET /_requests, POST /_go, POST /_reset"
                await exchange.answer(404, {"error": {"message": known}})

    async def _model_call(self, exchange: Exchange) -> None:
        path = re.sub(r"^/v\d+(?=/)", "", exchange.path.partition("?")[0])
        self._count += 1
        seen: dict[str, Any] = {"number": self._count, "method": exchange.method, "path": path}
        seen |= {"headers": exchange.headers, "body": None, "status": None, "client_left": False}
        self._seen.append(seen)
        offered = exchange.headers.get("x-api-key", exchange.headers.get("authorization", "").removeprefix("Bearer "))
        if self._key is not None and offered != self._key:
            refused = Answer(status=401, text="no such key", error_code="invalid_api_key")
            return await _refuse(exchange, path, refused, seen)
        if exchange.method == "GET" and path == "/models":
            seen["status"] = 200
            return await exchange.answer(
                200, {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]}
            )
        try:
            body: Any = json.loads(exchange.body)
        except ValueError:
            return await _refuse(exchange, path, Answer(status=400, text="the body is no JSON"), seen)
        seen["body"] = body
        if not isinstance(body, dict) or (path not in FORMATS and path not in OTHERS):
            return await _refuse(exchange, path, Answer(status=404, text=f"no such call: {path}"), seen)
        given = cast("dict[str, Any]", body)
        try:
            asked = OTHERS[path](given) if path in OTHERS else read_question(path, given)
        except (AttributeError, KeyError, TypeError, ValueError):
            return await _refuse(exchange, path, Answer(status=400, text="the body is not what this call takes"), seen)
        script = self._scripts.take(path, str(given.get("model", "")), exchange.body.decode(errors="replace"))
        return await self._answer(exchange, asked, script, seen)

    async def _answer(
        self, exchange: Exchange, asked: Question | dict[str, Any], script: Answer | None, seen: dict[str, Any]
    ) -> None:
        """Send the answer, and notice when the client disconnects meanwhile."""
        answer = script or (default_answer(asked) if isinstance(asked, Question) else Answer())
        path: str = seen["path"]
        seen["status"] = answer.status
        if answer.status != 200:
            await _refuse(exchange, path, answer, seen)
            return
        answering = asyncio.ensure_future(_say(exchange, asked, answer, seen["number"], self._may_go))
        leaving = asyncio.ensure_future(exchange.client_gone())
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            seen["client_left"] = True
            answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)
        if seen["client_left"] or answering.exception() is not None:
            raise Gone


async def _say(
    exchange: Exchange, asked: Question | dict[str, Any], answer: Answer, number: int, may_go: asyncio.Semaphore
) -> None:
    if answer.first_token_s:
        await asyncio.sleep(answer.first_token_s)
    if answer.body is not None:
        return await exchange.answer(200, answer.body, answer.headers)
    if not isinstance(asked, Question):
        return await exchange.answer(200, asked, answer.headers)
    said = FORMATS[asked.path](answer, asked, number)
    if asked.stream:
        await exchange.begin_stream(answer.headers)
        return await _stream(exchange, said, answer, may_go)
    if answer.fault == "hang":
        await asyncio.Event().wait()
    if answer.fault == "disconnect":
        exchange.cut()
        raise Gone
    text = json.dumps(said.whole(), ensure_ascii=False)
    return await exchange.answer(200, text[: len(text) // 2] if answer.fault == "broken_sse" else text, answer.headers)


async def _refuse(exchange: Exchange, path: str, answer: Answer, seen: dict[str, Any]) -> None:
    seen["status"] = answer.status
    body = error_body(path, answer) if answer.body is None else answer.body
    await exchange.answer(answer.status, body, answer.headers)


async def _stream(exchange: Exchange, said: Format, answer: Answer, may_go: asyncio.Semaphore) -> None:
    loop = asyncio.get_running_loop()
    for event in said.begin():
        await exchange.write(event, bytewise=answer.bytewise)
    started = loop.time()
    for number, event in enumerate(said.pieces()):
        if answer.hold and number == answer.after:
            await may_go.acquire()
        if answer.fault and number == answer.after and await _fault(exchange, said, answer):
            return
        if answer.tokens_per_second:
            ahead = started + number / answer.tokens_per_second - loop.time()
            if ahead > CATCH_UP_S:
                await asyncio.sleep(ahead)
        await exchange.write(said.noise() + event if answer.noise else event, bytewise=answer.bytewise)
    if answer.fault and await _fault(exchange, said, answer):
        return
    for event in said.end():
        await exchange.write(event, bytewise=answer.bytewise)
    await exchange.end_stream()


async def _fault(exchange: Exchange, said: Format, answer: Answer) -> bool:
    """Execute the fault; returns whether it ends the stream."""
    match answer.fault:
        case "empty_choices":
            return False
        case "disconnect":
            exchange.cut()
            raise Gone
        case "hang":
            await asyncio.Event().wait()
        case "broken_sse":
            await exchange.write(b'data: {"choices":[{"index":0,"del\n\n')
        case "half_utf8":
            await exchange.write(b'data: {"choices":[{"index":0,"delta":{"content":"' + "你".encode()[:2])
        case "error_event":
            await exchange.write(said.failure())
        case _:  # no_finish
            pass
    await exchange.end_stream()
    return True


def _words(text: str) -> list[str]:
    return re.findall(r"[\u3400-\u9fff]|\w+", text.lower())


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    texts: list[str] = [body["input"]] if isinstance(body.get("input"), str) else body.get("input", [])
    size = int(body.get("dimensions") or DIMENSIONS)
    vectors = [_vector(text, size) for text in texts]
    shown: list[object] = list(vectors)
    if body.get("encoding_format") == "base64":
        shown = [base64.b64encode(struct.pack(f"<{size}f", *vector)).decode() for vector in vectors]
    counted = sum(len(_words(text)) for text in texts)
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(shown)]
    usage = {"prompt_tokens": counted, "total_tokens": counted}
    return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


def _vector(text: str, size: int) -> list[float]:
    values = [0.0] * size
    for word in _words(text) or [""]:
        values[zlib.crc32(word.encode()) % size] += 1.0
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]


def _rerank(body: dict[str, Any]) -> dict[str, Any]:
    wanted = set(_words(str(body.get("query", ""))))
    scores = list(_scores(wanted, body.get("documents", [])))
    best = sorted(scores, key=lambda score: (-score["relevance_score"], score["index"]))
    return {"id": "loopback", "model": body.get("model"), "results": best[: body.get("top_n") or len(best)]}


def _scores(wanted: set[str], documents: list[Any]) -> Iterator[dict[str, Any]]:
    for index, document in enumerate(documents):
        text = document if isinstance(document, str) else str(document.get("text", ""))
        yield {"index": index, "relevance_score": len(wanted & set(_words(text))) / max(1, len(wanted))}


OTHERS: Final = {"/embeddings": _embeddings, "/rerank": _rerank}


async def serve(port: int, key: str | None) -> None:
    """Print the address, and serve until a signal arrives."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await asyncio.start_server(Provider(key).serve, "127.0.0.1", port, limit=HEAD_BYTES)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8098, help="0 takes a free one")
    parser.add_argument("--key", help="refuse calls that do not bring this key")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.key))


if __name__ == "__main__":
    main()
