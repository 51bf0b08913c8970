"""The allowed addresses of a provider, and the visibility of errors of an internal one."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.fixed_resolver import FixedResolver
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.doubles.proxy_server import proxy_server
from tests.host.models.answers import SPOKEN
from tests.host.models.provider import Provider, call, whole

from bollard.host.clock import SystemClock
from bollard.host.egress.addresses import parse_allow
from bollard.host.egress.client import EgressClient
from bollard.host.egress.proxy import ProxyRules
from bollard.host.errors import InvalidRequest, ModelFailed
from bollard.host.identity.caller import Caller, installation, rights_of
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.writer import Writer
from bollard.host.models.calls import ModelCaller
from bollard.host.models.source import ModelParts, open_models
from bollard.host.models.trial import try_model
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.store.blobs import BlobStore
from bollard.trust.keys import SigningKey

ADMIN = Caller(workspace="default", kind="session", name="user:ann", role="admin", rights=rights_of("admin"))
ASKER = ModelCaller(workspace="default", by="user:ann")
OpenHost = Callable[..., Awaitable[ModelParts]]


@pytest.fixture
async def open_host(tmp_path: Path) -> AsyncIterator[OpenHost]:
    """The models of a host, as they are on disk, each time with the current settings of an operator."""
    clock = ManualClock()
    store, key, redactor = MemoryStore(clock), SigningKey(SigningKey.new_secret()), Redactor()
    opened: list[tuple[ModelParts, Journal]] = []

    async def open_them(
        *allow: str,
        names: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        proxies: ProxyRules | None = None,
    ) -> ModelParts:
        writer = Writer(store, BlobStore(tmp_path / "blobs"), clock, incarnation=f"i{len(opened)}", key=key)
        journal = Journal(WriterThread(writer))
        vault = Vault(journal=journal, clock=clock, sealer=Sealer(tmp_path / "secrets.key"), redactor=redactor)
        models = open_models(
            journal=journal,
            clock=SystemClock(),
            vault=vault,
            redactor=redactor,
            egress=EgressClient(parse_allow(allow), FixedResolver(names or {}), proxies=proxies),
            environment=environment or {},
            default_model="",
            workspace="default",
        )
        opened.append((models, journal))
        await journal.start()
        await models.book.load(store)
        return models

    yield open_them
    for models, journal in opened:
        await models.gateway.close()
        await journal.close()


async def save(models: ModelParts, url: str) -> None:
    body = {"style": "openai-chat", "base_url": url, "model": "tiny", "tries": 1}
    await models.book.save(body, "default", "small", by="user:ann", edited=None)


async def failure(models: ModelParts, model_id: str = "small") -> ModelFailed:
    with pytest.raises(ModelFailed) as told:
        async with models.gateway.place(ASKER, model_id, 1) as place:
            await place.backend.invoke(call(), None)
    return told.value


async def test_an_internal_provider_is_used_only_if_an_operator_allows_it(there: Provider, open_host: OpenHost) -> None:
    url = f"http://127.0.0.1:{there.port}/v1"
    closed = await open_host()
    for inside in (url, "http://10.0.0.8/v1", "https://[::1]/v1", "http://192.168.1.4:11434/v1"):
        with pytest.raises(InvalidRequest) as refused:
            await save(closed, inside)
        assert refused.value.details["field"] == "model.base_url"
        assert "egress_allow" in refused.value.hint
        assert "BOLLARD_EGRESS_ALLOW=" in refused.value.hint

    await save(await open_host(f"127.0.0.1:{there.port}"), url)
    closed = await open_host()
    assert closed.book.get("default", "small").spec.base_url == url, "what was saved before is still there"
    error = await failure(closed)
    assert error.details["reason"] == "invalid_request"
    assert "egress_allow" in error.hint
    assert there.connections == 0

    there.say(whole(SPOKEN[0].whole))
    opened = await open_host(f"127.0.0.1:{there.port}")
    async with opened.gateway.place(ASKER, "small", 1) as place:
        await place.backend.invoke(call(), None)
    assert len(there.asked) == 1


async def test_the_first_real_model_of_a_workspace_is_its_default_until_another_is_chosen(open_host: OpenHost) -> None:
    models = await open_host()

    async def save(workspace: str, model_id: str, **more: Any) -> bool | None:
        body = {"style": "openai-chat", "base_url": "https://api.example.org/v1", "model": "tiny", **more}
        return (await models.book.save(body, workspace, model_id, by="user:ann", edited=None)).spec.default

    def default(workspace: str) -> str:
        return models.book.default(workspace).model_id

    assert await save("one", "helper", style="demo", base_url="", model="") is None
    assert await save("one", "vectors", style="openai-embeddings") is None
    assert default("one") == "demo"
    assert await save("one", "first") is True
    assert await save("one", "second") is None
    assert await save("one", "first", vision=True) is True, "an edit keeps the role"
    assert (default("one"), default("two")) == ("first", "demo")
    assert await save("one", "second", default=True) is True
    assert default("one") == "second"
    assert models.book.get("one", "first").spec.default is None
    assert models.book.get("one", "first").revision == 3
    with pytest.raises(InvalidRequest) as refused:
        await save("one", "vectors", style="openai-embeddings", default=True)
    assert refused.value.details["reason"] == "model_default_type"

    again = await open_host()
    assert again.book.default("one").model_id == "second", "the choice is on disk"
    await again.book.delete("one", "second", by="user:ann", edited=None)
    assert again.book.default("one").model_id == "demo"


async def test_a_model_of_the_environment_stays_the_default(open_host: OpenHost) -> None:
    models = await open_host(environment={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    await save(models, "https://api.example.org/v1")
    assert models.book.default("default").model_id == "openai"
    body = {"style": "openai-chat", "base_url": "https://api.example.org/v1", "model": "tiny", "default": True}
    await models.book.save(body, "default", "small", by="user:ann", edited=None)
    assert models.book.default("default").model_id == "small"


async def test_a_name_is_checked_at_each_connection_and_refusals_reveal_nothing(
    there: Provider, open_host: OpenHost
) -> None:
    names = {"models.example": [["10.1.2.3"]], "rebound.example": [["93.184.216.34", "127.0.0.1"]]}
    models = await open_host(names=names)
    told: list[tuple[str, str, object]] = []
    for name in ("models.example", "rebound.example", "nobody.example"):
        await save(models, f"https://{name}:{there.port}/v1")
        error = await failure(models)
        words = [text.replace(name, "NAME") for text in (error.message, error.hint)]
        told.append((*words, error.details["reason"]))
    assert len(set(told)) == 1
    assert "egress_allow" in told[0][1]
    assert "10.1.2.3" not in told[0][0]
    assert there.connections == 0


async def test_models_use_the_proxy_of_the_host_except_for_loopback(there: Provider, open_host: OpenHost) -> None:
    for _ in range(3):
        there.say(whole(SPOKEN[0].whole))
    with proxy_server(there.port) as proxy:
        rules = ProxyRules.of_settings(proxy=proxy.url("http"), login="", no_proxy=(), resolves=False)
        inside, own = "http://10.9.8.7:81/v1", f"http://127.0.0.1:{there.port}/v1"
        models = await open_host("10.9.8.7", environment={"OPENAI_BASE_URL": inside}, proxies=rules)
        await save(models, "http://10.9.8.7:82/v1")
        for model_id in ("openai", "small"):
            async with models.gateway.place(ASKER, model_id, 1) as place:
                await place.backend.invoke(call(), None)
        assert proxy.targets == ["10.9.8.7:81", "10.9.8.7:82"]
        direct = await open_host(environment={"OPENAI_BASE_URL": own}, proxies=rules)
        async with direct.gateway.place(ASKER, "openai", 1) as place:
            await place.backend.invoke(call(), None)
        assert len(proxy.targets) == 2
        proxy.refusal = 403
        await models.gateway.close()
        error = await failure(models)
        assert error.details["reason"] == "unreachable"
        assert "through the proxy: the proxy refused the connection (HTTP 403)" in error.message


async def test_a_provider_of_the_environment_may_be_on_this_machine(there: Provider, open_host: OpenHost) -> None:
    there.say(whole(SPOKEN[0].whole))
    models = await open_host(environment={"OPENAI_BASE_URL": f"http://127.0.0.1:{there.port}/v1"})
    async with models.gateway.place(ASKER, "openai", 1) as place:
        await place.backend.invoke(call(), None)
    assert len(there.asked) == 1


async def test_error_bodies_of_an_internal_provider_are_shown_to_the_installation_only(
    there: Provider, open_host: OpenHost
) -> None:
    models = await open_host(f"127.0.0.1:{there.port}")
    await save(models, f"http://127.0.0.1:{there.port}/v1")
    body = b"<html>internal wiki: the plan</html>"
    there.say(*[whole(body, status=404)] * 2, whole({"error": {"message": "the plan"}}))
    for caller, shown in ((ADMIN, False), (installation(), True)):
        tried = await try_model(models.gateway, SystemClock(), caller, "small")
        assert not tried["ok"]
        assert ("the plan" in str(tried)) is shown
        assert "HTTP 404" in str(tried["message"])
        assert ("log" in str(tried["message"])) is not shown
    error = await failure(models)
    assert "the plan" not in f"{error} {error.hint} {error.details}"


async def test_the_demo_stands_in_for_default_until_the_host_has_a_real_model(open_host: Any) -> None:
    parts = await open_host()
    models = parts.book
    real: dict[str, Any] = {"style": "openai-chat", "base_url": "https://models.example/v1", "model": "m"}
    await models.save({"style": "demo"}, "second", "scripted", by="ada", edited=None)
    assert models.missing_default("second") is None
    await models.save(real, "first", "smart", by="ada", edited=None)
    assert models.missing_default("first") is None
    missing = models.missing_default("second")
    assert missing is not None
    assert missing.command == "BOLLARD_WORKSPACE=second bollard models add --preset NAME"
    with pytest.raises(ModelFailed) as refused:
        async with parts.gateway.unpaid(ModelCaller(workspace="second", by="ada"), "default", 1):
            pytest.fail("nothing is behind default")
    assert (refused.value.reason, refused.value.hint) == ("no_default_model", missing.hint)
    await models.save({**real, "default": False}, "second", "spare", by="ada", edited=None)
    missing = models.missing_default("second")
    assert missing is not None
    assert missing.command == "BOLLARD_WORKSPACE=second bollard models default spare"
    await models.delete("second", "spare", by="ada", edited=None)
    await models.delete("first", "smart", by="ada", edited=None)
    assert models.missing_default("second") is None
