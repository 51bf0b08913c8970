"""Offers the tools of plugins as capabilities and calls them on workers; finds the skill folders of plugins."""

from collections.abc import Mapping, Sequence
from typing import Final

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult
from bollard.host.errors import HostError, OutcomeUnknown, ToolFailed, WorkerUnavailable, caused_by
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.tool_definitions import capability_of, tool_id
from bollard.host.reason import Why, why
from bollard.host.skills.catalogue import PluginSkillFolder
from bollard.host.workers.boundary import ToolSlot
from bollard.protocol import ActorContext, ConversationContext, ToolAnswer, ToolCallContext, ToolCallParams
from bollard.wire import CallTimeout, ChannelClosed, PayloadTooLarge, RemoteError, WireError
from bollard.wire.envelope import INVALID_PARAMS, METHOD_NOT_FOUND

_REMOVED: Final = why("its plugin was removed", "plugin_tool.removed")


class PluginSkillFolders:
    """The `skills` folders beside the manifests of plugins. A remote plugin has no folder on this machine."""

    def __init__(self, fleet: PluginFleet) -> None:
        self._fleet = fleet

    def of(self, workspace: str) -> list[PluginSkillFolder]:
        """The skill folders of the plugins in use whose id and digest are known."""
        return [
            PluginSkillFolder(plugin_id=each.plugin_id, folder=each.source.path / "skills", digest=each.digest)
            for each in self._fleet.of(workspace)
            if each.plugin_id is not None and each.digest is not None and each.origin != "remote"
        ]

    def revision(self) -> int:
        return self._fleet.changes


_MARGIN_S: Final = 2.0
"""Extra time of a worker beyond the executor's deadline, so that the executor's time-out comes first."""
_LOGS: Final = "see `bollard plugin logs`"


class PluginTools:
    """Implements `Source` and `Adapter` for the tools of every plugin. One per host."""

    def __init__(self, fleet: PluginFleet) -> None:
        self._fleet = fleet
        self._cache: dict[str, tuple[int, dict[str, Capability]]] = {}
        """By workspace: the change count of the fleet, and the capabilities at that count."""

    @property
    def adapter(self) -> "PluginTools":
        return self

    @property
    def revision(self) -> int:
        return self._fleet.changes

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        return list(self._offered(workspace).values())

    def absent(self, workspace: str) -> Mapping[str, Why]:
        absent: dict[str, Why] = {}
        for placement in self._fleet.of(workspace):
            if (plugin := placement.plugin_id) is None:
                continue
            problem = _unavailability(placement)
            if problem is not None:
                absent[tool_id(plugin, "")] = problem
            tools = placement.refused_tools if problem is None else {t.name: problem for t in placement.usable_tools}
            absent |= {
                tool_id(plugin, name): why(
                    f"the tool cannot be used: {reason}", "plugin_tool.unusable", inner={**reason.whole}
                )
                for name, reason in tools.items()
            }
        return absent

    def _offered(self, workspace: str) -> dict[str, Capability]:
        cached = self._cache.get(workspace)
        if cached is None or cached[0] != self._fleet.changes:
            placements = [each for each in self._fleet.of(workspace) if _unavailability(each) is None]
            offered = {each.id: each for placement in placements for each in _capabilities(placement)}
            cached = self._cache[workspace] = (self._fleet.changes, offered)
        return cached[1]

    # --- calling ---

    async def invoke(self, order: CallOrder) -> CallResult:
        """Call the tool on a worker of its plugin, in the workspace of the call."""
        tool = order.capability
        slot = await self._worker(order)
        try:
            return _result(await slot.call_tool(_params(order)))
        except ChannelClosed as error:
            raise _unknown(tool, f"the connection to its worker closed: {error.reason}") from error
        except CallTimeout as error:
            raise _unknown(tool, f"no answer within {order.timeout_s:g} s") from error
        except PayloadTooLarge as error:
            raise ToolFailed(
                f"the arguments of {tool.id} are too large for its worker: {error}",
                reason="plugin_tool_arguments",
                hint="pass an artifact instead of its content",
                tool=tool.id,
                **caused_by(error),
            ) from error
        except WireError as error:
            raise _call_error(tool, error) from error

    async def _worker(self, order: CallOrder) -> ToolSlot:
        tool, workspace = order.capability, order.context.workspace
        if (current := self._offered(workspace).get(tool.id)) is None:
            problem = self.absent(workspace).get(tool.id, _REMOVED)
            raise ToolFailed(
                f"{tool.id} cannot be called: {problem}",
                reason="plugin_tool_unavailable",
                hint="see `bollard capabilities explain`",
                tool=tool.id,
                **problem.whole,
            )
        if current.definition_sha256 != tool.definition_sha256:
            raise ToolFailed(
                f"{tool.id} changed since this run began, because its plugin was updated",
                reason="plugin_tool_changed",
                hint="start another run; it gets the tool in its current version",
                tool=tool.id,
            )
        pool = self._fleet.pools[workspace, tool.source.removeprefix("plugin:")]
        try:
            return await pool.wait_ready(order.timeout_s)
        except WorkerUnavailable as error:
            raise ToolFailed(
                f"{tool.id} cannot be called: {error.message}",
                reason="plugin_tool_worker",
                hint=error.hint or _LOGS,
                tool=tool.id,
                **caused_by(error),
            ) from error


def _unavailability(placement: PoolPlacement) -> Why | None:
    """Why no tool of the plugin can be called. `None` during a restart, which callers wait for."""
    status, plugin = placement.pool.status, placement.plugin_id
    if status == "quarantined":
        problem = placement.pool.problem
        inner = {} if problem is None else {**problem.whole}
        sentence = (
            f"the plugin {plugin} is quarantined; `bollard plugin restart {plugin}` ends the quarantine: {problem}"
        )
        return why(sentence, "plugin_tool.quarantined", plugin=plugin, inner=inner)
    if status == "away":
        return why(f"no runtime of the plugin {plugin} is connected", "plugin_tool.away", plugin=plugin)
    if status in ("retired", "stopped"):
        return why(f"the plugin {plugin} is being stopped", "plugin_tool.stopping", plugin=plugin)
    if placement.tools is None:
        return why(f"the plugin {plugin} is starting", "plugin_tool.starting", plugin=plugin)
    return None


def _capabilities(placement: PoolPlacement) -> list[Capability]:
    claims = None if placement.access is None else dict(placement.access.tools)
    return [
        capability_of(
            tool,
            plugin_id=placement.plugin_id or "",
            version=placement.digest or placement.version or "",
            claims=None if claims is None else claims[tool.name],
        )
        for tool in placement.usable_tools
    ]


def _params(order: CallOrder) -> ToolCallParams:
    return ToolCallParams(
        # Unique on the connection: every run numbers its own calls, and `tool/cancel` names nothing but the call.
        call_id=f"{order.context.run_id}.{order.call_id}",
        tool=order.capability.name,
        arguments=order.arguments,
        timeout_ms=int((order.timeout_s + _MARGIN_S) * 1000),
        context=_context(order.context),
    )


def _context(context: CallContext) -> ToolCallContext:
    actor = conversation = None
    if context.actor is not None:
        actor = ActorContext(actor_type=context.actor.type, actor_id=context.actor.id)
    if context.conversation is not None:
        conversation = ConversationContext(conversation_id=context.conversation, thread_id=context.thread)
    return ToolCallContext(
        run_id=context.run_id,
        workspace_id=context.workspace,
        agent_id=context.agent_id,
        actor=actor,
        conversation=conversation,
        locale=context.locale,
        traceparent=context.traceparent,
    )


def _result(answer: ToolAnswer) -> CallResult:
    content = tuple(element.to_wire() for element in answer.content)
    return CallResult(content=content, structured=answer.structured, is_error=answer.is_error)


def _unknown(tool: Capability, problem: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{tool.id} started and did not answer: {problem}",
        reason="plugin_tool",
        hint="check what it changed before you call it again; " + _LOGS,
        tool=tool.id,
        problem=problem,
    )


def _call_error(tool: Capability, error: WireError) -> HostError:
    """Only a rejected request surely had no effect; an unreadable answer may have had one."""
    if not isinstance(error, RemoteError) or error.code not in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return _unknown(tool, str(error))
    return ToolFailed(
        f"the worker rejected the call of {tool.id}: {error}",
        reason="plugin_tool_rejected",
        hint=_LOGS,
        tool=tool.id,
        **caused_by(error),
    )
