"""The host that `plugin run` plays: a `MemoryHost` with a demo model, the plugin's own tools, and a growing history.

Knows contexts, configuration and the transcript. The worker and its channel are `workerlink`'s business.
"""

import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bollard import __version__
from bollard.cli.errors import UsageProblem
from bollard.protocol import (
    AgentRunnerManifest,
    FormItem,
    JsonObject,
    JsonValue,
    ModelsInvoke,
    ToolAnswer,
    ToolDefinition,
)
from bollard.protocol.context import DeliveryContext
from bollard.sdk.testing import MemoryHost, Recording, RunLedger, RunOutcome, ScriptedModel
from bollard.sdk.testing.occasion import Occasion, context_of
from bollard.sdk.testing.recording import BLANK
from bollard.sdk.testing.transcript import text_of

__all__ = ["DEMO_MODEL", "Stage", "ToolCaller", "recording_of", "whole_config"]

DEMO_MODEL: Final = "demo"
"""The model that answers offline."""

ToolCaller = Callable[[str, JsonObject], Awaitable[ToolAnswer]]
"""Calls a tool of the plugin by name."""

_DEMO_VALUES: Final[Mapping[str, JsonValue]] = {
    "llm-model-selector": DEMO_MODEL,
    "select-llm-model": DEMO_MODEL,
    "rerank-model-selector": DEMO_MODEL,
    "embedding-model-selector": DEMO_MODEL,
    "model-fallback-selector": {"primary": DEMO_MODEL, "fallbacks": []},
}
"""What a selector gets that nobody filled in."""


def _demo_reply(request: ModelsInvoke) -> str:
    """Says what it was last told, and how much came before."""
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    said = text_of(last.content) if last is not None else ""
    return f"(demo model) You said: {said}" if said else "(demo model) Nobody said anything."


def whole_config(given: JsonObject, form: Sequence[FormItem]) -> JsonObject:
    """The configuration as an agent's would be: defaults filled in, models chosen; raises where a field is missing."""
    config = dict(given)
    for item in form:
        if item.name in config:
            continue
        value = item.default if item.default is not None else _DEMO_VALUES.get(item.type)
        if value is not None:
            config[item.name] = value
        elif item.required and not item.show_if:
            raise UsageProblem("error.config_missing", "hint.config_missing", name=item.name, type=item.type)
    return config


class Stage:
    """One conversation in memory."""

    def __init__(
        self,
        runner: AgentRunnerManifest,
        config: JsonObject,
        tools: Sequence[ToolDefinition],
        call_tool: ToolCaller,
        *,
        locale: str,
        timeout_s: float,
    ) -> None:
        self.runner = runner
        self._config = whole_config(config, runner.config_schema)
        self._locale = locale
        self._timeout_s = timeout_s
        self._runs = 0
        self.host = MemoryHost(
            models={DEMO_MODEL: ScriptedModel(itertools.repeat(_demo_reply))},
            tools={tool.name: _forwarded(tool, call_tool) for tool in tools},
        )
        offered: dict[str, Any] = self.host.world.tools.offered
        for tool in tools:  # a forwarding function has no schema; the plugin's own description does
            offered[tool.name] = dataclasses.replace(offered[tool.name], definition=tool)

    def open(self, text: str | None, event_type: str) -> RunLedger:
        """Begin a run; the ledger's context is the one to send."""
        self._runs += 1
        delivery = DeliveryContext(surface="terminal", supports_streaming=True)
        occasion: Occasion = {"event_type": event_type, "locale": self._locale, "delivery": delivery}
        context = context_of(
            f"run-{self._runs}",
            text,
            occasion,
            config=self._config,
            now=self.host.clock.now(),
            timeout_s=self._timeout_s,
        )
        runtime = context.runtime.model_copy(update={"host_version": __version__})
        return self.host.open(
            context.model_copy(update={"runtime": runtime}),
            permissions=self.runner.permissions,
            capabilities=self.runner.capabilities,
            runner_name=self.runner.name,
        )

    def end(self, ledger: RunLedger, reason: str | None) -> RunOutcome:
        """Close a run, and let the next one read what was said in it."""
        outcome = self.host.end(ledger.context.run_id, reason)
        transcript = self.host.world.transcript
        if ledger.context.input.text is not None:
            transcript.add(("user", ledger.context.input.text))
        for text, status in outcome.steering:
            if status == "acknowledged":
                transcript.add(("user", text))
        for message in outcome.messages:
            transcript.add(message)
        return outcome


def _forwarded(tool: ToolDefinition, call_tool: ToolCaller) -> Callable[..., Awaitable[ToolAnswer]]:
    def forward(**arguments: JsonValue) -> Awaitable[ToolAnswer]:
        return call_tool(tool.name, arguments)

    forward.__doc__ = tool.description
    forward.__name__ = tool.name
    return forward


def recording_of(ledger: RunLedger, runner: AgentRunnerManifest) -> Recording:
    """A recording of a run that starts now, without what its form calls secret."""
    secret = {item.name for item in runner.config_schema if item.type == "secret"}
    config = {name: BLANK if name in secret else value for name, value in ledger.context.config.items()}
    return Recording(ledger.context.model_copy(update={"config": config}))
