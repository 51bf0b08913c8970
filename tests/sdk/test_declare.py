"""`@runner`: its derived values, and its refusals with a hint."""

import functools
from typing import Any

import pytest
from pydantic import BaseModel
from tests.tables import for_each

from bollard.protocol import AgentRunnerCapabilities, AgentRunnerPermissions
from bollard.sdk import ConfigError, DeclarationError, ModelSelector, RunContext, declaration_of, runner
from bollard.sdk.errors import defer_declaration_errors


class Config(BaseModel):
    model: ModelSelector = None
    limit: int = 3


def declared(target: object):
    found = declaration_of(target)
    assert found is not None
    return found


def test_the_decorated_object_is_the_same_object():
    async def echo(ctx):
        yield "x"

    assert runner(label="Echo")(echo) is echo
    assert declared(echo).target is echo


def test_the_manifest_has_the_computed_id_and_the_declared_fields():
    @runner(
        name="fast",
        label={"en_US": "Fast", "zh_Hans": "快"},
        description="Quick answers.",
        capabilities=["steering", "interrupt"],
        permissions={"models": ["invoke", "stream"], "storage": "plugin"},
        config=Config,
        metadata={"colour": "blue"},
    )
    async def fast(ctx: RunContext):
        yield "x"

    manifest = declared(fast).manifest("ada", "tools")
    assert manifest.id == "plugin:ada/tools/fast"
    assert manifest.label["zh_Hans"] == "快"
    assert manifest.description == {"en_US": "Quick answers."}
    assert manifest.capabilities == AgentRunnerCapabilities(streaming=True, steering=True, interrupt=True)
    assert manifest.permissions == AgentRunnerPermissions(models=("invoke", "stream"), storage=("plugin",))
    assert manifest.metadata == {"colour": "blue"}


def test_a_plain_runner_has_no_permissions_and_no_capabilities():
    @runner(label="Quiet")
    async def quiet(ctx):
        return "x"

    manifest = declared(quiet).manifest("a", "b")
    assert manifest.capabilities == AgentRunnerCapabilities()
    assert manifest.permissions == AgentRunnerPermissions()
    assert manifest.config_schema == ()


def test_streaming_follows_from_yielding():
    @runner()
    async def streams(ctx):
        yield "x"

    assert declared(streams).capabilities.streaming


def test_complete_capabilities_and_permissions_are_used_unchanged():
    @runner(capabilities=AgentRunnerCapabilities(), permissions=AgentRunnerPermissions(tools=("call",)))
    async def streams(ctx):
        yield "x"

    assert not declared(streams).capabilities.streaming
    assert declared(streams).permissions.tools == ("call",)


def test_a_missing_label_is_derived_from_the_name():
    @runner()
    async def answer_questions(ctx):
        yield "x"

    assert declared(answer_questions).label == {"en_US": "Answer questions"}


@pytest.mark.requirement("P02-15")
def test_the_configuration_model_is_read_from_the_annotation():
    @runner()
    async def typed(ctx: RunContext[Config]):
        yield "x"

    @runner()
    class Typed:
        async def run(self, ctx: RunContext[Config]):
            yield "x"

    @runner()
    async def quoted(ctx: "RunContext[Config]"):
        yield "x"

    for target in (typed, Typed, quoted):
        assert declared(target).config_model is Config
        names = [item.name for item in declared(target).manifest("a", "b").config_schema]
        assert names == ["model", "limit"]


def test_a_plain_context_has_a_plain_configuration():
    @runner()
    async def one(ctx: RunContext):
        yield "x"

    @runner()
    async def two(ctx: RunContext[dict[str, Any]]):
        yield "x"

    @runner()
    async def three(ctx: "NotImported"):  # noqa: F821
        yield "x"

    for target in (one, two, three):
        assert declared(target).config_model is None
        assert declared(target).read_config({"a": 1}) == {"a": 1}


@pytest.mark.requirement("P04-15")
def test_the_configuration_is_parsed_as_its_model_or_refused_by_field():
    @runner(config=Config)
    async def typed(ctx):
        yield "x"

    assert declared(typed).read_config({"limit": 5}) == Config(limit=5)
    with pytest.raises(ConfigError) as caught:
        declared(typed).read_config({"limit": "x"})
    assert caught.value.field == "limit"


def test_a_subclass_of_a_runner_is_not_a_runner():
    @runner()
    class Parent:
        async def run(self, ctx):
            yield "x"

    class Child(Parent):
        pass

    assert declaration_of(Parent) is not None
    assert declaration_of(Child) is None
    assert declaration_of(object()) is None


@pytest.mark.anyio
async def test_a_class_is_created_once_and_its_hooks_are_called():
    events = []

    @runner()
    class Keeper:
        async def start(self):
            events.append("start")

        async def run(self, ctx):
            events.append("run")

        async def close(self):
            events.append("close")

    made = declared(Keeper).instantiate()
    await made.start()
    await made.call(None)
    await made.call(None)
    await made.close()
    assert events == ["start", "run", "run", "close"]


@pytest.mark.anyio
async def test_hooks_are_optional():
    @runner()
    class Bare:
        async def run(self, ctx):
            return None

    made = declared(Bare).instantiate()
    await made.start()
    await made.close()


async def _ok(ctx):
    yield "x"


def _sync(ctx):
    return "x"


def _sync_generator(ctx):
    yield "x"


async def _no_ctx():
    yield "x"


async def _two(ctx, other):
    yield "x"


async def _keyword(*, ctx):
    yield "x"


async def _bad_config(ctx: RunContext[int]):
    yield "x"


async def _lost_config(ctx: "RunContext[Nowhere]"):  # noqa: F821
    yield "x"


class _NoRun:
    pass


class _SyncRun:
    def run(self, ctx):
        return "x"


class _RunWithoutCtx:
    async def run(self):
        yield "x"


class _SyncStart:
    def start(self):
        return None

    async def run(self, ctx):
        yield "x"


class _Needy:
    def __init__(self, key):
        self.key = key

    async def run(self, ctx):
        yield "x"


@for_each(
    ("target", "problem", "hint"),
    [
        (_sync, "_sync() is not async", "async def"),
        (_sync_generator, "generator that is not async", "async def"),
        (lambda ctx: None, "a lambda cannot be a runner", "async def"),
        (functools.partial(_ok), "neither a function nor a class", "async def"),
        (3, "neither a function nor a class", "async def"),
        (_no_ctx, "cannot be called with the run's context alone", "(ctx)"),
        (_two, "cannot be called with the run's context alone", "(ctx)"),
        (_keyword, "cannot be called with the run's context alone", "(ctx)"),
        (_bad_config, "'int' is not a pydantic model", "BaseModel"),
        (_lost_config, "cannot be resolved", "config="),
        (_NoRun, "has no method run", "async def run(self, ctx)"),
        (_SyncRun, "_SyncRun.run() is not async", "async def"),
        (_RunWithoutCtx, "cannot be called with the run's context alone", "async def run(self, ctx)"),
        (_SyncStart, "_SyncStart.start is not an async method", "async def start(self)"),
        (_Needy, "needs arguments (key)", "defaults"),
    ],
)
def test_an_invalid_target_is_refused_with_a_hint(target, problem, hint):
    with pytest.raises(DeclarationError) as caught:
        runner(name="x")(target)
    assert caught.value.subject == "runner 'x'"
    assert problem in caught.value.problem
    assert hint in caught.value.hint


@for_each(
    ("arguments", "problem"),
    [
        ({"name": "Not A Name"}, "name"),
        ({"label": {"zh_Hans": "快"}}, "label"),
        ({"capabilities": ["flying"]}, "unknown capability 'flying'"),
        ({"permissions": {"models": ["invent"]}}, "permissions.models.0"),
        ({"permissions": {"moon": ["land"]}}, "permissions.moon"),
        ({"config": dict}, None),
        ({"config": int}, "is not a pydantic model"),
        ({"metadata": {"a": object()}}, "metadata.a"),
    ],
)
def test_a_wrong_argument_is_named(arguments, problem):
    async def target(ctx):
        yield "x"

    if problem is None:
        assert declaration_of(runner(**arguments)(target)) is not None
        return
    with pytest.raises(DeclarationError) as caught:
        runner(**arguments)(target)
    assert problem in caught.value.problem
    assert caught.value.hint


def test_the_decorator_without_parentheses_is_refused_with_a_hint():
    with pytest.raises(DeclarationError, match="without arguments"):
        runner(_ok)


def test_a_deferred_declaration_error_is_raised_when_the_declaration_is_read():
    class Broken:
        pass

    with defer_declaration_errors():
        runner(name="x")(Broken)
    with pytest.raises(DeclarationError, match="has no method run"):
        declaration_of(Broken)
    assert declaration_of(type("Child", (Broken,), {})) is None
    with defer_declaration_errors(), pytest.raises(DeclarationError, match="neither a function nor a class"):
        runner(name="x")(3)
    with pytest.raises(DeclarationError):
        runner(name="x")(Broken)


def test_the_docstring_of_a_runner_is_its_description() -> None:
    @runner()
    async def told(ctx: RunContext):
        """Helps people
        who write.

        Not part of it.
        """
        yield ctx.delta("hi")

    @runner(description="Said.")
    async def said(ctx: RunContext):
        """Not used."""
        yield ctx.delta("hi")

    @runner()
    async def silent(ctx: RunContext):
        yield ctx.delta("hi")

    found = [declaration_of(each) for each in (told, said, silent)]
    assert [each and each.description for each in found] == [
        {"en_US": "Helps people who write."},
        {"en_US": "Said."},
        None,
    ]
