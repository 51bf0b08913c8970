"""Where the plugins of a workspace have their skills: in the folder `skills` beside their manifest."""

from collections.abc import Mapping, Sequence
from typing import Final

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult
from bollard.host.errors import HostError, OutcomeUnknown, ToolFailed, WorkerUnavailable
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.tool_definitions import capability_of, tool_id
from bollard.host.skills.catalogue import PluginSkillFolder
from bollard.host.workers.boundary import ToolSlot
from bollard.protocol import ActorContext, ConversationContext, ToolAnswer, ToolCallContext, ToolCallParams
from bollard.wire import CallTimeout, ChannelClosed, PayloadTooLarge, RemoteError, WireError
from bollard.wire.envelope import INVALID_PARAMS, METHOD_NOT_FOUND


class PluginSkillFolders:
    """Over the fleet. Code on another machine has no folder here."""

    def __init__(self, fleet: PluginFleet) -> None:
        self._fleet = fleet

    def of(self, workspace: str) -> list[PluginSkillFolder]:
        """Of the plugins that are in use and known by name and code."""
        return [
            PluginSkillFolder(plugin_id=each.plugin_id, folder=each.source.path / "skills", digest=each.digest)
            for each in self._fleet.of(workspace)
            if each.plugin_id is not None and each.digest is not None and each.origin != "remote"
        ]

    def revision(self) -> int:
        return self._fleet.changes


# The tools of plugins, offered to the workspaces that have the plugin, and called on its workers.


_MARGIN_S: Final = 2.0
"""What a worker has more than the executor, whose time-out decides: a worker's own would look like an answer."""
_LOGS: Final = "`bollard plugin logs` says what its worker said"


class PluginTools:
    """Implements `Source` and `Adapter`. One per host, over the fleet."""

    def __init__(self, fleet: PluginFleet) -> None:
        self._fleet = fleet
        self._made: dict[str, tuple[int, dict[str, Capability]]] = {}
        """By workspace, at which change of the fleet it was made."""

    @property
    def adapter(self) -> "PluginTools":
        return self

    @property
    def revision(self) -> int:
        return self._fleet.changes

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        return list(self._offered(workspace).values())

    def absent(self, workspace: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for fitting in self._fleet.of(workspace):
            if (plugin := fitting.plugin_id) is None:
                continue
            why = _why_away(fitting)
            if why is not None:
                found[tool_id(plugin, "")] = why
            named = fitting.refused_tools if why is None else {tool.name: why for tool in fitting.usable_tools}
            found |= {tool_id(plugin, name): f"the tool cannot be used: {reason}" for name, reason in named.items()}
        return found

    def _offered(self, workspace: str) -> dict[str, Capability]:
        made = self._made.get(workspace)
        if made is None or made[0] != self._fleet.changes:
            fittings = [each for each in self._fleet.of(workspace) if _why_away(each) is None]
            offered = {each.id: each for fitting in fittings for each in _capabilities(fitting)}
            made = self._made[workspace] = (self._fleet.changes, offered)
        return made[1]

    # --- calling ---

    async def invoke(self, order: CallOrder) -> CallResult:
        """Call the tool on a worker of its plugin, in the workspace of the call."""
        wanted = order.capability
        slot = await self._worker(order)
        try:
            return _returned(await slot.call_tool(_params(order)))
        except ChannelClosed as error:
            raise _unknown(wanted, f"its worker was lost: {error.reason}") from error
        except CallTimeout as error:
            raise _unknown(wanted, f"no answer within {order.timeout_s:g} s") from error
        except PayloadTooLarge as error:
            raise ToolFailed(
                f"the arguments of {wanted.id} are too large for its worker: {error}",
                hint="hand over an artifact instead of its content",
            ) from error
        except WireError as error:
            raise _refused(wanted, error) from error

    async def _worker(self, order: CallOrder) -> ToolSlot:
        wanted, workspace = order.capability, order.context.workspace
        if (now := self._offered(workspace).get(wanted.id)) is None:
            reason = self.absent(workspace).get(wanted.id, "its plugin is not there any more")
            raise ToolFailed(f"{wanted.id} cannot be called: {reason}", hint="`bollard capabilities explain` says more")
        if now.definition_sha256 != wanted.definition_sha256:
            raise ToolFailed(
                f"{wanted.id} is not the tool any more that this run was given: its plugin was changed meanwhile",
                hint="start another run, which gets the tool as it is now",
            )
        pool = self._fleet.pools[workspace, wanted.source.removeprefix("plugin:")]
        try:
            return await pool.wait_ready(order.timeout_s)
        except WorkerUnavailable as error:
            raise ToolFailed(f"{wanted.id} cannot be called: {error.message}", hint=error.hint or _LOGS) from error


def _why_away(fitting: PoolPlacement) -> str | None:
    """Why none of its tools can be called now; a worker that is being restarted is worth waiting for."""
    status = fitting.pool.status
    if status == "quarantined":
        return f"the plugin {fitting.plugin_id} is in quarantine: {fitting.pool.problem}"
    if status == "away":
        return f"no runtime of the plugin {fitting.plugin_id} is connected"
    if status in ("retired", "stopped"):
        return f"the plugin {fitting.plugin_id} is being stopped"
    if fitting.tools is None:
        return f"the plugin {fitting.plugin_id} has not said yet what it offers"
    return None


def _capabilities(fitting: PoolPlacement) -> list[Capability]:
    claims = None if fitting.asked is None else dict(fitting.asked.tools)
    return [
        capability_of(
            tool,
            plugin_id=fitting.plugin_id or "",
            version=fitting.digest or fitting.version or "",
            claims=None if claims is None else claims[tool.name],
        )
        for tool in fitting.usable_tools
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
    if context.actor_type is not None:
        actor = ActorContext(actor_type=context.actor_type, actor_id=context.actor_id)
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


def _returned(answer: ToolAnswer) -> CallResult:
    content = tuple(element.to_wire() for element in answer.content)
    return CallResult(content=content, structured=answer.structured, is_error=answer.is_error)


def _unknown(capability: Capability, why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{capability.id} was begun and did not answer: {why}",
        hint="look at what it acts on before it is called again; " + _LOGS,
    )


def _refused(capability: Capability, error: WireError) -> HostError:
    """The worker refused the call, or its answer cannot be read. Only the first surely had no effect."""
    surely_nothing = isinstance(error, RemoteError) and error.code in (INVALID_PARAMS, METHOD_NOT_FOUND)
    if not surely_nothing:
        return _unknown(capability, str(error))
    return ToolFailed(f"the worker of {capability.id} could not do it: {error}", hint=_LOGS)
