"""The built-in tools over a real folder, with small ports in memory."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.confine.probe import Confinement, choose_confinement, machine_findings
from bollard.host.capabilities.capability import NO_FLOW, Flow
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult
from bollard.host.egress.destination import EgressRequest, EgressResponse
from bollard.host.errors import NotFound
from bollard.host.tools.builtin import BuiltinTools
from bollard.host.tools.definitions import DEFINITIONS
from bollard.host.tools.files import Workspaces
from bollard.host.tools.ports import ArtifactPiece
from bollard.protocol import JsonObject

Call = Callable[..., Awaitable[CallResult]]


class ArtifactsInMemory:
    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, str, bytes]] = {}
        self.flow: Flow = NO_FLOW

    async def read(self, context: CallContext, artifact_id: str, offset: int, length: int) -> ArtifactPiece:
        if artifact_id not in self.kept:
            raise NotFound("this run has no such artifact", reason="test")
        name, mime_type, content = self.kept[artifact_id]
        return ArtifactPiece(
            name=name, mime_type=mime_type, size=len(content), content=content[offset : offset + length], flow=self.flow
        )

    async def write(
        self, context: CallContext, *, call_id: str, name: str, mime_type: str, content: bytes
    ) -> JsonObject:
        self.kept[call_id] = (name, mime_type, content)
        return {"artifact_id": call_id, "name": name}


class PagesInMemory:
    def __init__(self) -> None:
        self.asked: list[EgressRequest] = []
        self.answer = EgressResponse(
            url="https://example.org/", status=200, headers=(("content-type", "text/plain"),), body=b"words"
        )

    async def fetch(self, request: EgressRequest) -> EgressResponse:
        self.asked.append(request)
        return self.answer


class PersonInMemory:
    async def ask(self, order: CallOrder, question: str, choices: tuple[str, ...]) -> str:
        return choices[0] if choices else f"you asked {question}"


@pytest.fixture
def artifacts() -> ArtifactsInMemory:
    return ArtifactsInMemory()


@pytest.fixture
def pages() -> PagesInMemory:
    return PagesInMemory()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_ms=1_800_000_000_000)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "workspaces"


@pytest.fixture
def make_tools(
    home: Path, clock: ManualClock, artifacts: ArtifactsInMemory, pages: PagesInMemory
) -> Callable[[Confinement], BuiltinTools]:
    def make(confinement: Confinement) -> BuiltinTools:
        return BuiltinTools(
            clock=clock,
            workspaces=Workspaces(home),
            fetcher=pages,
            artifacts=artifacts,
            questions=PersonInMemory(),
            confinement=confinement,
        )

    return make


@pytest.fixture
def tools(make_tools: Callable[[Confinement], BuiltinTools]) -> BuiltinTools:
    return make_tools(choose_confinement("any", machine_findings()))


@pytest.fixture
def make_call() -> Callable[[BuiltinTools], Call]:
    """Calls a tool as the executor would, once it has allowed it."""

    def make(tools: BuiltinTools) -> Call:
        async def call(
            name: str, /, *, run_id: str = "run_1", within_s: float = 60.0, **arguments: object
        ) -> CallResult:
            order = CallOrder(
                call_id="call_1",
                capability=DEFINITIONS[name],
                arguments=arguments,  # pyright: ignore[reportArgumentType]
                context=CallContext(run_id=run_id, workspace="default", agent_id="a"),
                timeout_s=within_s,
            )
            return await tools.adapter.invoke(order)

        return call

    return make


@pytest.fixture
def call(make_call: Callable[[BuiltinTools], Call], tools: BuiltinTools) -> Call:
    return make_call(tools)


@pytest.fixture
def say(call: Call) -> Callable[..., Awaitable[str]]:
    """The text answer of a tool; it must not be an error."""

    async def say(name: str, /, **arguments: object) -> str:
        returned = await call(name, **arguments)
        assert not returned.is_error, returned
        return str(returned.content[0]["text"])

    return say
