"""`bollard models` against a real host, and a host whose environment names a model."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, get_args

import pytest
from tests.doubles.proxy_server import proxy_server
from tests.tables import for_each

from bollard.cli.language import LANGUAGES, load_text
from bollard.host.errors import InvalidRequest
from bollard.host.models.failures import Reason, failed
from bollard.host.models.presets import presets
from bollard.host.models.specs import SavedModel

KEY = "sk-environment-canary-0123"


class _Answering(BaseHTTPRequestHandler):
    """Answers hello in the format of OpenAI's chat, in one event."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if "wrong" in self.headers.get("authorization", ""):
            refusal = b'{"error": {"message": "no such key"}}'
            self.send_response(401)
            self.send_header("content-length", str(len(refusal)))
            self.end_headers()
            self.wfile.write(refusal)
            return
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


def test_a_model_is_added_tested_shown_and_removed(ask: Any, provider_url: str) -> None:
    assert ask("secrets", "set", "MODEL_KEY", stdin="sk-0123456789\n").code == 0
    where = ("--base-url", provider_url, "--model", "tiny", "--secret", "MODEL_KEY")
    prices = ("--price-input", "0.15", "--price-output", "0.6", "--context-window", "1000", "--vision")
    added = ask("models", "add", "small", *where, *prices, "--text")
    assert added.code == 0, added.err
    assert added.out.splitlines() == [
        "saved model small; test it: bollard models test small",
        "small is the default model of this workspace",
    ]
    shown = ask("models", "show", "small", "--text").out
    assert "key: secret MODEL_KEY" in shown
    assert "price per million tokens: 0.15 input, 0.6 output, in USD" in shown
    tried = ask("models", "test", "small", "--text")
    assert tried.code == 0, tried.err
    assert "answer: hello there" in tried.out
    listing = ask("models")
    listed = {item["model_id"]: item for item in listing.json["items"]}
    assert (listed["small"]["origin"], listed["small"]["is_default"]) == ("saved", True)
    assert listed["demo"]["is_default"] is False
    assert (listed["small"]["vision"], listed["small"]["secret"]) == (True, "MODEL_KEY")
    assert "sk-0123456789" not in listing.out
    assert "内置" in ask("models", "list", "--text", BOLLARD_LANG="zh_Hans").out
    assert ask("models", "remove", "small", "--text").out == "removed model small\n"
    assert ask("models", "show", "small").code == 4
    assert ask("secrets", "remove", "MODEL_KEY").code == 0


def test_a_silent_model_is_reported_with_reason_and_hint(ask: Any) -> None:
    where = ("--base-url", "http://127.0.0.1:1/v1", "--model", "tiny")
    assert ask("models", "add", "dead", *where).code == 0
    tried = ask("models", "test", "dead", "--text", BOLLARD_LANG="zh_Hans")
    assert tried.code == 1
    assert "dead 没有回答（unreachable）：无法连接模型提供方：连接被拒绝\n" in tried.out
    assert "地址：http://127.0.0.1:1/v1\n" in tried.out
    assert "提示：请检查 base_url，以及主机到提供方的网络" in tried.out
    assert ask("models", "remove", "dead").code == 0


def test_a_preset_saves_model_and_key_tests_them_and_chooses_the_default(ask: Any, provider_url: str) -> None:
    here = ("--preset", "deepseek", "--base-url", provider_url, "--key-stdin")
    added = ask("models", "add", *here, "--text", stdin="sk-fine-0123456789\n")
    assert added.code == 0, added.err
    lines = added.out.splitlines()
    assert lines[0] == f"deepseek-chat at {provider_url}"
    assert lines[1].startswith("deepseek answered in ")
    assert lines[2:] == [
        "answer: hello there",
        "saved model deepseek",
        "deepseek is the default model of this workspace",
    ]
    shown = ask("models", "show", "deepseek").json
    assert (shown["secret"], shown["style"], shown["is_default"]) == ("DEEPSEEK_API_KEY", "openai-chat", True)
    again = ask("models", "add", "second", "--preset", "deepseek", "--base-url", provider_url)
    assert again.code == 0, again.err
    assert (again.json["model"]["is_default"], again.json["kept"], again.json["test"]["ok"]) == (False, True, True)
    chosen = ask("models", "default", "second", "--text")
    assert chosen.out == "second is the default model of this workspace\n", chosen.err
    assert "sk-fine" not in added.out + again.out + ask("models").out
    for name in ("deepseek", "second"):
        assert ask("models", "remove", name).code == 0
    assert ask("secrets", "remove", "DEEPSEEK_API_KEY").code == 0


def test_a_preset_with_a_failed_test_saves_nothing_without_keep(ask: Any, provider_url: str) -> None:
    here = ("models", "add", "--preset", "modelscope", "--model", "tiny", "--base-url", provider_url, "--key-stdin")
    failed = ask(*here, "--text", stdin="sk-wrong-0123456789\n")
    assert failed.code == 1
    assert f"address: {provider_url}, HTTP status 401" in failed.out
    assert "no such key" in failed.out
    assert "hint: bind your ModelScope account to an Alibaba Cloud account first" in failed.out
    assert "model modelscope was not saved; --keep saves it also if the test fails" in failed.out
    assert ask("models", "show", "modelscope").code == 4
    assert "MODELSCOPE_API_KEY" not in ask("secrets").out
    kept = ask(*here, "--keep", "--text", stdin="sk-wrong-0123456789\n", BOLLARD_LANG="zh_Hans")
    assert kept.code == 1
    assert f"地址：{provider_url}，HTTP 状态 401" in kept.out
    assert "模型提供方拒绝了密钥，或密钥不可用：提供方应答 HTTP 401，“no such key”（原文）\n" in kept.out
    assert "请先把 ModelScope 账号绑定到阿里云账号" in kept.out
    assert "已保存模型 modelscope" in kept.out
    before = ask("models", "show", "modelscope").json
    assert ask(*here, "--vision", stdin="sk-wrong-0123456789\n").code == 1
    after = ask("models", "show", "modelscope").json
    assert (after["vision"], after["default"]) == (before["vision"], before["default"])
    assert ask("models", "remove", "modelscope").code == 0
    assert ask("secrets", "remove", "MODELSCOPE_API_KEY").code == 0


def _zhipu(ask: Any) -> list[str]:
    """The secrets of these tests; the host has those of other tests too."""
    names = [item["secret_name"] for item in ask("secrets").json["items"]]
    return [name for name in names if name.startswith("ZHIPUAI")]


def test_a_key_with_a_failed_test_does_not_replace_the_key_of_other_models(ask: Any, provider_url: str) -> None:
    here = ("models", "add", "first", "--preset", "zhipu", "--model", "tiny", "--base-url", provider_url, "--key-stdin")
    assert ask(*here, stdin="sk-fine-0123456789\n").code == 0
    other = (*here[:2], "other", *here[3:])
    assert ask(*other, stdin="sk-wrong-0123456789\n").code == 1
    assert _zhipu(ask) == ["ZHIPUAI_API_KEY"]
    assert ask("models", "test", "first").code == 0  # with the former key
    assert ask(*other, stdin="sk-fine-9876543210\n").json["model"]["secret"] == "ZHIPUAI_API_KEY"
    assert _zhipu(ask) == ["ZHIPUAI_API_KEY"]
    assert ask(*other, "--keep", stdin="sk-wrong-0123456789\n").json["kept"] is True
    assert ask("models", "test", "first").code == 1
    for name in ("first", "other"):
        assert ask("models", "remove", name).code == 0
    assert ask("secrets", "remove", "ZHIPUAI_API_KEY").code == 0


def test_the_secret_of_a_test_that_was_killed_goes_with_the_next_one(ask: Any, provider_url: str) -> None:
    here = ("models", "add", "first", "--preset", "zhipu", "--model", "tiny", "--base-url", provider_url, "--key-stdin")
    assert ask(*here, stdin="sk-fine-0123456789\n").code == 0
    for name in ("ZHIPUAI_API_KEY_TRIAL_0A1B2C3D", "ZHIPUAI_API_KEY_TRIAL_FFFFFFFF", "ZHIPUAI_API_KEY_TRIAL_MINE"):
        assert ask("secrets", "set", name, stdin="sk-fine-0123456789").code == 0
    there = ("--base-url", provider_url, "--model", "tiny", "--secret")
    assert ask("models", "add", "first", *there, "ZHIPUAI_API_KEY_TRIAL_0A1B2C3D").code == 0
    assert ask("models", "add", "busy", *there, "ZHIPUAI_API_KEY_TRIAL_FFFFFFFF").code == 0
    assert ask(*here, stdin="sk-wrong-0123456789\n").code == 1
    left = ["ZHIPUAI_API_KEY", "ZHIPUAI_API_KEY_TRIAL_FFFFFFFF", "ZHIPUAI_API_KEY_TRIAL_MINE"]
    assert _zhipu(ask) == left
    assert ask("models", "show", "first").json["secret"] == "ZHIPUAI_API_KEY"
    for name in ("first", "busy"):
        assert ask("models", "remove", name).code == 0
    for name in left:
        assert ask("secrets", "remove", name).code == 0


def test_a_piped_key_is_saved_as_the_named_secret(ask: Any, provider_url: str) -> None:
    here = ("models", "add", "--preset", "vllm", "--model", "tiny", "--base-url", provider_url, "--secret", "OWN_NAME")
    added = ask(*here, "--key-stdin", stdin="sk-fine-0123456789\n")
    assert (added.code, added.json["model"]["secret"]) == (0, "OWN_NAME"), added.out
    assert ask("models", "remove", "vllm").code == 0
    assert ask("secrets", "remove", "OWN_NAME").code == 0


def test_a_preset_prompts_for_the_key_without_echo(terminal: Any, steady_host: Any, provider_url: str) -> None:
    there = ("--preset", "groq", "--base-url", provider_url)
    screen = terminal("models", "add", *there, **steady_host.variables)
    screen.expect("Name of the model at Groq: ")
    screen.send("tiny\n")
    screen.expect("API key of Groq: ")
    screen.send("sk-wrong-0123456789\n")
    screen.expect(r"Keep the model anyway\? \[y/N\] ")
    screen.send("n\n")
    screen.expect("model groq was not saved")
    assert screen.end() == 1
    assert "sk-wrong" not in screen.shown


def test_a_preset_with_an_address_for_each_customer_asks_for_its_name(terminal: Any, steady_host: Any) -> None:
    screen = terminal("models", "add", "--preset", "azure", "--model", "tiny", **steady_host.variables)
    screen.expect("Name of your resource at Azure OpenAI: ")
    screen.send("nowhere.invalid/#\n")
    screen.expect("tiny at https://nowhere.invalid/#.openai.azure.com/openai/v1")
    screen.expect("API key of Azure OpenAI: ")
    screen.send("sk-wrong-0123456789\n")
    screen.expect("model.base_url")
    assert screen.end() == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--preset", "deepsek"), "deepseek"),
        (("--preset", "ollama"), "--model NAME"),
        (("--preset", "qwen"), "--key-stdin"),
        (("--preset", "azure", "--model", "m"), "--base-url https://YOUR-RESOURCE.openai.azure.com/openai/v1"),
        ((), "bollard models add --preset openai"),
        (("x", "--keep"), "--preset"),
        (("gpt",), "--base-url and --model"),
    ],
)
def test_an_incomplete_preset_names_the_missing_option(ask: Any, arguments: tuple[str, ...], told: str) -> None:
    refused = ask("models", "add", *arguments, "--text")
    assert refused.code == 2
    assert told in refused.err


def test_every_preset_makes_a_model_that_the_host_accepts(bollard: Any) -> None:
    listed = {item["preset"]: item for item in bollard("models", "presets", "--json").json["items"]}
    wanted = "openai anthropic deepseek qwen moonshot zhipu modelscope ollama vllm litellm openrouter siliconflow"
    assert set(wanted.split()) <= set(listed) == set(presets())
    for name, preset in presets().items():
        for url in (preset.base_url, *preset.other_urls):
            body = {"style": preset.style, "base_url": url, "model": preset.model or "m", "secret": preset.secret}
            assert SavedModel.read({"model_id": name, **body}).base_url == url
        assert set(preset.note) in (set(), set(LANGUAGES))
    shown = bollard("models", "presets", "--text").out
    assert "https://dashscope.aliyuncs.com/compatible-mode/v1" in shown


@pytest.mark.parametrize("arguments", [("add", "x", "--style", "telepathy"), ("add", "x", "--header", "nothing")])
def test_a_wrong_option_is_refused_before_any_request(ask: Any, arguments: tuple[str, ...]) -> None:
    assert ask("models", *arguments).code == 2


def test_the_host_refuses_an_invalid_model_by_field(ask: Any) -> None:
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
def test_an_invalid_model_is_refused_in_the_chosen_language(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SavedModel.read({"model_id": "x", **SAVED, **change})
    error = refused.value
    message, hint = load_text("zh_Hans").host_error(error.code, error.details, error.message, error.hint)
    for english, chinese in ((error.message, message), (error.hint, hint)):
        assert re.search(r"[\u4e00-\u9fff]", chinese), chinese
        assert english not in chinese
    assert str(error.details["field"]) in message


@for_each("reason", get_args(Reason))
def test_the_hint_for_a_provider_failure_is_in_the_chosen_language(reason: Reason) -> None:
    error = failed(reason, "the provider answered HTTP 503", "model.refused", status=503)
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


@pytest.mark.full
def test_a_host_with_a_proxy_reaches_its_models_through_it(bollard: Any, new_host: Any, provider_url: str) -> None:
    port = int(provider_url.rpartition(":")[2].removesuffix("/v1"))
    with proxy_server(port, login="ann:proxy-canary") as proxy:
        host = new_host().start(
            BOLLARD_PROXY=proxy.url("socks5"), BOLLARD_PROXY_LOGIN="ann:proxy-canary", BOLLARD_EGRESS_ALLOW="10.9.8.7"
        )
        there = ("--preset", "vllm", "--model", "tiny", "--base-url", "http://10.9.8.7:8000/v1")
        added = bollard("models", "add", *there, "--text", **host.variables)
        assert added.code == 0, added.out + added.err
        assert "answer: hello there" in added.out
        own = bollard("models", "add", "own", *there, "--proxy", "http://10.9.8.8:3128", "--text", **host.variables)
        assert own.code == 4
        assert "model.proxy: 10.9.8.8 must not be reached" in own.err
        assert proxy.targets == ["10.9.8.7:8000"]
        assert "proxy-canary" not in host.log + json.dumps(host.told)


def test_a_host_with_an_invalid_proxy_does_not_start_and_names_the_setting(bollard: Any) -> None:
    refused = bollard("up", "--text", BOLLARD_PROXY="http://ann:proxy-canary@proxy.example", BOLLARD_LANG="zh_Hans")
    assert refused.code != 0
    assert "设置无效：proxy：" in refused.err
    assert "proxy-canary" not in refused.out + refused.err
