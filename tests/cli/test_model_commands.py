"""`bollard models` against a real host, and a host whose environment names a model."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, get_args

import pytest
from tests.tables import for_each

from bollard.cli.language import load_text
from bollard.host.errors import InvalidRequest
from bollard.host.models.failures import Reason, failed
from bollard.host.models.specs import SavedModel

KEY = "sk-environment-canary-0123"


class _Answering(BaseHTTPRequestHandler):
    """Says hello in the format of OpenAI's chat, in one event."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        choice = {"index": 0, "delta": {"content": "hello there"}, "finish_reason": "stop"}
        body = f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's name
        del format, args


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    there = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=there.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{there.server_address[1]}/v1"
    there.shutdown()
    there.server_close()
    thread.join(30)


@pytest.fixture
def ask(bollard: Any, steady_host: Any) -> Any:
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_model_is_added_tried_shown_and_removed(ask: Any, provider_url: str) -> None:
    assert ask("secrets", "set", "MODEL_KEY", stdin="sk-0123456789\n").code == 0
    where = ("--base-url", provider_url, "--model", "tiny", "--secret", "MODEL_KEY")
    prices = ("--price-input", "0.15", "--price-output", "0.6", "--context-window", "1000", "--vision")
    added = ask("models", "add", "small", *where, *prices, "--text")
    assert (added.code, added.out) == (0, "saved model small; test it: bollard models test small\n"), added.err
    shown = ask("models", "show", "small", "--text").out
    assert "key: secret MODEL_KEY" in shown
    assert "price per million tokens: 0.15 input, 0.6 output, in USD" in shown
    tried = ask("models", "test", "small", "--text")
    assert tried.code == 0, tried.err
    assert "answer: hello there" in tried.out
    listing = ask("models")
    listed = {item["model_id"]: item for item in listing.json["items"]}
    assert (listed["small"]["origin"], listed["demo"]["is_default"]) == ("saved", True)
    assert (listed["small"]["vision"], listed["small"]["secret"]) == (True, "MODEL_KEY")
    assert "sk-0123456789" not in listing.out
    assert "内置" in ask("models", "list", "--text", BOLLARD_LANG="zh_Hans").out
    assert ask("models", "remove", "small", "--text").out == "removed model small\n"
    assert ask("models", "show", "small").code == 4
    assert ask("secrets", "remove", "MODEL_KEY").code == 0


def test_a_model_that_does_not_answer_says_why_and_what_to_do(ask: Any) -> None:
    where = ("--base-url", "http://127.0.0.1:1/v1", "--model", "tiny")
    assert ask("models", "add", "dead", *where).code == 0
    tried = ask("models", "test", "dead", "--text", BOLLARD_LANG="zh_Hans")
    assert tried.code == 1
    assert "没有回答（unreachable）：无法连接模型提供方 (http://127.0.0.1:1: no connection within 10 s: " in tried.out
    assert "提示：请检查 base_url，以及主机到提供方的网络" in tried.out


@pytest.mark.parametrize("arguments", [("add", "x", "--style", "telepathy"), ("add", "x", "--header", "nothing")])
def test_a_wrong_option_is_refused_before_anything_is_asked(ask: Any, arguments: tuple[str, ...]) -> None:
    assert ask("models", *arguments).code == 2


def test_the_host_refuses_what_cannot_work_by_field(ask: Any) -> None:
    refused = ask("models", "add", "x", "--base-url", "ftp://example.org", "--model", "m", "--text")
    assert refused.code != 0
    assert "base_url" in refused.err
    refused = ask("models", "remove", "demo", "--text", BOLLARD_LANG="zh_Hans")
    assert refused.code != 0
    assert "模型 demo 随主机提供，不能修改" in refused.err
    assert "请用另一个名称保存你的模型" in refused.err


SAVED = {"style": "openai-chat", "base_url": "https://example.org/v1", "model": "m"}


@pytest.mark.parametrize(
    "change", [{"model": " "}, {"headers": {"Authorization": "Bearer abc"}}, {"headers": {"X-Api-Token": "abc"}}]
)
def test_what_cannot_work_is_refused_in_the_readers_language(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SavedModel.read({"model_id": "x", **SAVED, **change})
    error = refused.value
    message, hint = load_text("zh_Hans").host_error(error.code, error.details, error.message, error.hint)
    for english, chinese in ((error.message, message), (error.hint, hint)):
        assert re.search(r"[\u4e00-\u9fff]", chinese), chinese
        assert english not in chinese
    assert str(error.details["field"]) in message


@for_each("reason", get_args(Reason))
def test_what_to_do_about_a_provider_is_said_in_the_readers_language(reason: Reason) -> None:
    error = failed(reason, "no")
    message, hint = load_text("zh_Hans").host_error(error.code, error.details, error.message, error.hint)
    assert (error.message in message, error.hint in hint) == (False, False)


def test_a_host_takes_its_model_from_the_environment_and_never_shows_the_key(
    bollard: Any, new_host: Any, provider_url: str
) -> None:
    host = new_host().start(OPENAI_BASE_URL=provider_url, OPENAI_API_KEY=KEY, OPENAI_MODEL="tiny")
    listed = bollard("models", **host.variables)
    (of_environment,) = [item for item in listed.json["items"] if item["origin"] == "environment"]
    assert (of_environment["model_id"], of_environment["is_default"]) == ("openai", True)
    assert bollard("models", "test", "default", **host.variables).json["words"] == "hello there"
    changed = bollard("models", "add", "openai", "--base-url", provider_url, "--model", "m", **host.variables)
    assert changed.code != 0
    assert KEY not in listed.out
    assert KEY not in json.dumps(host.told)
