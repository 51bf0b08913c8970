"""The offline host in a plugin folder: `manifest.yaml` decides, as on a real host."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bollard.manifest import PluginLoadError
from bollard.sdk import DeclarationError
from bollard.sdk.testing import MemoryHost, ScriptedModel

pytestmark = pytest.mark.anyio

HEAD = """apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: asking, version: 1.0.0, label: {en_US: Asking}}
spec:
  runners:
"""
ASKING = """from pydantic import BaseModel

from bollard.sdk import RunContext, runner


class Settings(BaseModel):
    tone: str = "plain"


@runner(label="Asking", permissions={"models": ["stream"]}, capabilities=["steering"])
async def asking(ctx: RunContext[Settings]):
    answer = await ctx.api.models.invoke("demo", [{"role": "user", "content": "hi"}])
    yield ctx.completed(f"{ctx.config.tone}: {answer.content}")


second_name = asking


@runner(name="unlisted")
async def unlisted(ctx: RunContext):
    yield ctx.delta("nobody offers me")
"""

Load = Callable[..., ModuleType]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Writes a plugin folder and imports its module, as a test of the plugin does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    imported: list[str] = []

    def load(entries: str, *, code: str = ASKING, module: str = "asking_code") -> ModuleType:
        (tmp_path / "manifest.yaml").write_text(HEAD + entries, encoding="utf-8")
        file = tmp_path / f"{module.replace('.', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(code, encoding="utf-8")
        imported.append(module)
        importlib.invalidate_caches()
        return importlib.import_module(module)

    yield load
    for name in imported:
        for part in (name, name.partition(".")[0]):
            sys.modules.pop(part, None)


def entry(permissions: str, where: str = "asking_code:asking", more: str = "") -> str:
    return f"    - {{name: default, label: {{en_US: Asking}}, entry: '{where}', permissions: {permissions}{more}}}\n"


def host() -> MemoryHost:
    return MemoryHost(models={"demo": ScriptedModel(["hello"])})


@pytest.mark.parametrize(
    ("where", "module"),
    [
        ("asking_code:asking", "asking_code"),
        ("asking_code:second_name", "asking_code"),
        ("inner.code:asking", "inner.code"),
    ],
)
async def test_the_manifest_may_permit_more_than_the_decorator(load: Load, where: str, module: str) -> None:
    loaded = load(entry("{models: [invoke]}", where), module=module)
    outcome = await host().run(loaded.asking, "hello")
    assert (outcome.status, outcome.text) == ("completed", "plain: hello")


async def test_the_decorator_adds_nothing_to_the_manifest_and_the_error_names_the_file(load: Load) -> None:
    code = ASKING.replace('"stream"', '"invoke"')
    outcome = await host().run(load(entry("{models: [stream]}"), code=code).asking, "hello")
    assert [call.outcome for call in outcome.calls] == ["capability_denied"]
    assert "add models: [invoke] to the permissions of runner default in manifest.yaml" in (outcome.error or "")


async def test_the_manifest_decides_about_capabilities_and_form_defaults(load: Load) -> None:
    form = ", config_schema: [{name: tone, type: string, label: {en_US: Tone}, default: loud}]"
    asking = load(entry("{models: [invoke]}", more=", capabilities: {streaming: true}" + form)).asking
    live = host().start(asking, "hello")
    with pytest.raises(ValueError, match="steering"):
        live.steer("faster")
    assert (await live.outcome()).text == "loud: hello"
    assert (await host().run(asking, "hello", config={"tone": "soft"})).text == "soft: hello"


async def test_a_runner_missing_from_the_manifest_is_refused(load: Load) -> None:
    unlisted = load(entry("{models: [invoke]}")).unlisted
    with pytest.raises(DeclarationError, match=r"manifest.yaml beside it does not name it[\s\S]*asking_code:unlisted"):
        await host().run(unlisted, "hello")


async def test_an_invalid_manifest_is_refused_with_its_rule(load: Load) -> None:
    with pytest.raises(PluginLoadError, match=r"PL10 default: permissions.models.0"):
        await host().run(load(entry("{models: [shout]}")).asking, "hello")


async def test_a_file_without_a_manifest_is_declared_by_its_decorator(tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text(ASKING.replace('"stream"', '"invoke"'), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("alone_code", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # in no list of modules, as some tests load a file
    assert (await host().run(module.asking, "hello")).text == "plain: hello"
