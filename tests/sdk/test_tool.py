"""`@tool`: the schema of a signature, and an answer for any behaviour."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from tests.tables import for_each

from bollard.protocol import (
    ActorContext,
    FlowBits,
    ImageUrl,
    ImageUrlContent,
    TextContent,
    ToolAnswer,
    ToolCallContext,
    limits,
)
from bollard.sdk import DeclarationError, ToolContext, tool, tool_declaration_of

pytestmark = pytest.mark.anyio


class Report(BaseModel):
    degrees: float


class Place(TypedDict):
    city: str
    street: NotRequired[str]


@dataclass
class Point:
    x: int


@pytest.fixture
def context() -> ToolCallContext:
    return ToolCallContext(
        run_id="run-1",
        workspace_id="w",
        agent_id="a",
        actor=ActorContext(actor_type="user", actor_id="u"),
        locale="zh_Hans",
    )


def declared(target: object):
    found = tool_declaration_of(target)
    assert found is not None
    return found


def text(answer: ToolAnswer) -> str:
    return "".join(element.text for element in answer.content if isinstance(element, TextContent))


@tool(risk="low", flow={"sends_out": False}, effects="none")
async def Weather(  # noqa: N802 -- the name is lower-cased
    city: Annotated[str, Field(description="Where.", min_length=2)],
    ctx: ToolContext,
    days: int = 1,
    json: Literal["short", "long"] = "short",
    note: str = Field(default="", description="Anything else."),
) -> Report:
    """The weather of a city."""
    return Report(degrees=days + 0.5)


@pytest.mark.requirement("P11-57")
def test_the_schema_follows_the_signature():
    definition = declared(Weather).definition()
    assert definition.name == "weather"
    assert definition.description == "The weather of a city."
    assert definition.input_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "Where.", "minLength": 2},
            "days": {"type": "integer", "default": 1},
            "json": {"type": "string", "enum": ["short", "long"], "default": "short"},
            "note": {"type": "string", "default": "", "description": "Anything else."},
        },
    }
    Draft202012Validator.check_schema(definition.input_schema)
    assert definition.output_schema is not None
    assert definition.output_schema["properties"]["degrees"]["type"] == "number"
    assert definition.flow == FlowBits(sends_out=False)
    assert (definition.risk, definition.effects) == ("low", "none")


@pytest.mark.parametrize(
    ("returned", "properties", "required"),
    [
        (Report, {"degrees": "number"}, ["degrees"]),
        (Place, {"city": "string", "street": "string"}, ["city"]),
        (Point, {"x": "integer"}, ["x"]),
        (dict[str, int], {}, []),
    ],
)
def test_a_returned_object_has_a_schema(returned, properties, required):
    def give():
        """Give."""

    give.__annotations__["return"] = returned
    schema = declared(tool()(give)).output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert {name: found["type"] for name, found in schema.get("properties", {}).items()} == properties
    assert schema.get("required", []) == required


@for_each("returned", [str, int, None, list[str], Any])
def test_any_other_return_value_is_content(returned):
    def give():
        """Give."""

    give.__annotations__["return"] = returned
    assert declared(tool()(give)).output_schema is None


async def test_arguments_are_checked_and_defaults_are_filled_in(context):
    answer = await declared(Weather).invoke({"city": "Rome", "days": 3}, context)
    assert not answer.is_error
    assert answer.structured == {"degrees": 3.5}
    assert text(answer) == '{"degrees":3.5}'


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({}, "city"), ({"city": "R"}, "city"), ({"city": "Rome", "days": "x"}, "days"), ({"city": "Rome", "c": 1}, "c")],
)
async def test_invalid_arguments_are_an_error_that_names_the_field(context, arguments, field):
    answer = await declared(Weather).invoke(arguments, context)
    assert answer.is_error
    assert f"weather: {field}: " in text(answer)


async def test_a_tool_knows_its_caller(context):
    @tool()
    def whose(who: ToolContext) -> str:
        """Whose?"""
        assert who.actor is not None
        return f"{who.run_id} {who.workspace_id} {who.agent_id} {who.actor.actor_id} {who.locale}"

    assert declared(whose).input_schema["properties"] == {}
    assert text(await declared(whose).invoke({}, context)) == "run-1 w a u zh_Hans"


async def test_a_synchronous_tool_runs_in_a_thread(context):
    @tool()
    def where() -> bool:
        """Where?"""
        return threading.current_thread() is threading.main_thread()

    assert (await declared(where).invoke({}, context)).structured is False


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(2), KeyboardInterrupt(), StopIteration("x")])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_raising_tool_is_an_error_with_type_and_message(context, error, is_async):
    async def later() -> str:
        """Fail."""
        raise error

    def now() -> str:
        """Fail."""
        raise error

    answer = await declared(tool()(later if is_async else now)).invoke({}, context)
    assert answer.is_error
    assert type(error).__name__ in text(answer)
    assert "Traceback" not in text(answer)


async def test_an_exception_without_a_message_is_named_by_its_type(context):
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    @tool()
    async def mute() -> str:
        """Fail."""
        raise Mute

    assert text(await declared(mute).invoke({}, context)) == "Mute: (its message cannot be read)"


@pytest.mark.parametrize(
    ("returned", "content", "structured"),
    [
        ("words", "words", None),
        (None, "", None),
        ({"a": [1]}, '{"a":[1]}', {"a": [1]}),
        (Report(degrees=1), '{"degrees":1.0}', {"degrees": 1.0}),
        (Point(3), '{"x":3}', {"x": 3}),
        ([1, "b"], '[1,"b"]', [1, "b"]),
        ([], "[]", []),
        (7, "7", 7),
        ([TextContent(text="a"), TextContent(text="b")], "ab", None),
        (TextContent(text="one"), "one", None),
    ],
)
async def test_a_return_value_is_converted_to_content_and_structure(context, returned, content, structured):
    @tool()
    async def give():
        """Give."""
        return returned

    answer = await declared(give).invoke({}, context)
    assert not answer.is_error
    assert (text(answer), answer.structured) == (content, structured)


async def test_content_elements_and_complete_answers_pass_unchanged(context):
    picture = ImageUrlContent(image_url=ImageUrl(url="https://example.org/a.png"))
    whole = ToolAnswer(content=(picture,), is_error=True)

    @tool()
    async def give():
        """Give."""
        return whole

    assert await declared(give).invoke({}, context) == whole


@pytest.mark.parametrize("returned", [object(), float("nan"), {"a": {1: object()}}, "\ud800"])
async def test_a_return_that_is_not_json_is_an_error(context, returned):
    @tool()
    async def give():
        """Give."""
        return returned

    answer = await declared(give).invoke({}, context)
    assert answer.is_error
    assert "not JSON" in text(answer)


async def test_an_oversized_return_value_is_an_error_with_the_limit(context):
    @tool()
    async def flood() -> str:
        """Flood."""
        return "x" * limits.CALL_BYTES

    answer = await declared(flood).invoke({}, context)
    assert answer.is_error
    assert str(limits.CALL_BYTES) in text(answer)


async def test_a_cancel_passes_through_the_tool(context):
    started = asyncio.Event()

    @tool()
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.ensure_future(declared(wait).invoke({}, context))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_subtask_of_a_tool_is_a_failure_of_the_tool(context):
    @tool()
    async def clumsy() -> str:
        """Clumsy."""
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task
        return "never"

    answer = await declared(clumsy).invoke({}, context)
    assert answer.is_error
    assert text(answer).startswith("CancelledError")


def plain(a: int) -> str:
    """Plain."""
    return str(a)


def _undocumented(a: int) -> str:
    return str(a)


def _untyped(a) -> str:
    """Untyped."""
    return str(a)


def _star(*a: int) -> str:
    """Star."""
    return str(a)


def _positional(a: int, /) -> str:
    """Positional."""
    return str(a)


def _unresolved(a: "Nowhere") -> str:  # noqa: F821
    """Unresolved."""
    return str(a)


def _strange(a: threading.Thread) -> str:
    """Strange."""
    return str(a)


def _generator(a: int):
    """Generator."""
    yield a


@for_each(
    ("target", "arguments", "problem"),
    [
        (_undocumented, {}, "no description"),
        (_untyped, {}, "parameter a has no type"),
        (_star, {}, "cannot be given by name"),
        (_positional, {}, "cannot be given by name"),
        (_unresolved, {}, "cannot be resolved"),
        (_strange, {}, "no schema"),
        (_generator, {}, "a generator cannot be a tool"),
        (lambda a: a, {}, "no named function"),
        (Report, {}, "no named function"),
        (plain, {"name": "Not A Name"}, "name"),
        (plain, {"risk": "huge"}, "risk"),
        (plain, {"flow": {"flies": True}}, "flow.flies"),
        (plain, {"effects": "some"}, "effects"),
        (plain, {"description": "x" * 5000}, "5000 characters"),
    ],
)
def test_an_invalid_tool_is_refused_with_a_hint(target, arguments, problem):
    with pytest.raises(DeclarationError) as caught:
        tool(**arguments)(target)
    assert problem in caught.value.problem
    assert caught.value.hint
    assert caught.value.subject.startswith("tool ")


def test_the_decorator_without_parentheses_is_refused_with_a_hint():
    with pytest.raises(DeclarationError, match="without parentheses"):
        tool(plain)


def test_an_undecorated_function_has_no_declaration():
    assert tool_declaration_of(plain) is None
