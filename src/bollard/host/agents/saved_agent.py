"""The body of an agent: what people save, what the log stores, and what answers show.

An answer shows a secret as `KEPT`. `KEPT` in a request means the stored secret of the same agent and the same runner:
an agent that moves to another plugin does not take along a secret that was entered for the first one.
"""

from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from bollard.host.agents.agent import Agent
from bollard.host.agents.commands import AGENT_COMMANDS, AgentCommand, distinct_names
from bollard.host.agents.config_form import config_from_wire, masked_config
from bollard.host.agents.names import ChosenName
from bollard.host.agents.policies import AgentPolicy, policy_from_wire, policy_to_wire
from bollard.host.agents.saved_body import SavedBody
from bollard.host.errors import InvalidRequest
from bollard.host.limits import RUN_DEADLINE_MAX_S
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Flag, JsonObject, JsonValue, Localized, Number, limits

_LOCALES: Final = 32
"""Languages of one label."""


def _not_blank(text: dict[str, str]) -> dict[str, str]:
    if not any(words.strip() for words in text.values()):
        raise PydanticCustomError("blank_label", "needs a text in some language, for example en_US")
    return text


Label = Annotated[Localized, Field(max_length=_LOCALES), AfterValidator(_not_blank)]
_Seconds = Annotated[Number, Field(gt=0, le=RUN_DEADLINE_MAX_S)]
_Policy = Annotated[AgentPolicy, BeforeValidator(policy_from_wire), PlainSerializer(policy_to_wire)]


class SavedAgent(SavedBody):
    """An agent as people save it. The form of its runner validates `config`."""

    noun = "agent"
    agent_id: ChosenName
    runner_id: str = Field(min_length=1, max_length=4 * limits.NAME_CHARACTERS)
    label: Label | None = None
    description: Label | None = None
    config: JsonObject = Field(default_factory=dict)
    policy: _Policy = Field(default_factory=AgentPolicy)
    deadline_s: _Seconds = limits.RUN_DEADLINE_S
    idle_s: _Seconds = limits.RUN_IDLE_S
    repeatable: Flag = False
    commands: Annotated[tuple[AgentCommand, ...], Field(max_length=AGENT_COMMANDS), AfterValidator(distinct_names)] = (
        Field(default=(), description="Chat commands that the agent adds.")
    )
    enabled: Flag = Field(default=True, description="A disabled agent gets no events; its active runs continue.")
    warnings: JsonValue = Field(default=None, exclude=True, description="Ignored, so that an answer can be saved back.")

    @property
    def runner_parts(self) -> tuple[str, str, str]:
        """Author and name of the plugin, and the name of the runner. Raises `InvalidRequest`."""
        parts = self.runner_id.removeprefix("plugin:").split("/")
        if not self.runner_id.startswith("plugin:") or len(parts) != 3 or not all(parts):
            problem = f"{self.runner_id} is not a runner id"
            hint = "a runner id has the form plugin:author/name/runner"
            raise self.invalid("runner_id", "runner_id", problem, hint, runner=self.runner_id)
        return parts[0], parts[1], parts[2]


def read_request(body: JsonObject, own: Agent | None, known: Iterable[str], before: SavedAgent | None) -> SavedAgent:
    """The agent of a request, with a complete configuration. Raises `InvalidRequest` for an agent that cannot work.

    `own` is the built-in agent of the runner in the request, `known` are all runners, and `before` is the agent that
    the new one replaces.
    """
    agent = SavedAgent.read(body if own is None else _with_default_mode(body, own))
    if own is None:
        names = ", ".join(sorted(known))
        raise SavedAgent.invalid(
            "no_runner" if names else "no_runners",
            "runner_id",
            f"there is no runner {agent.runner_id}",
            f"use one of {names}" if names else "no plugin offers a runner now; start one first",
            runner=agent.runner_id,
            names=names,
        )
    _refuse_patterns(agent.policy)
    stored = before.config if before is not None and before.runner_id == agent.runner_id else None
    completed = {
        "label": agent.label or own.label,
        "description": agent.description or own.description,
        "config": config_from_wire(agent.config, own.form, before=stored),
    }
    return agent.model_copy(update=completed)


def read_stored(body: JsonObject) -> SavedAgent:
    """An agent that was saved before. The runner may have a newer form, so the form does not check `config` again."""
    agent = SavedAgent.read(body)
    _ = agent.runner_parts
    return agent


def agent_without_runner(saved: Saved[SavedAgent]) -> Agent:
    """A saved agent without the values of its runner's manifest. It is granted nothing."""
    agent = saved.value
    author, plugin, runner = agent.runner_parts
    return Agent(
        agent_id=agent.agent_id,
        workspace=saved.workspace,
        runner_id=agent.runner_id,
        runner_name=runner,
        plugin=f"{author}/{plugin}",
        label=dict(agent.label or {"en_US": agent.agent_id}),
        description=None if agent.description is None else dict(agent.description),
        config=agent.config,
        policy=agent.policy,
        deadline_s=agent.deadline_s,
        idle_s=agent.idle_s,
        repeatable=agent.repeatable,
        commands=agent.commands,
        enabled=agent.enabled,
        revision=saved.revision,
    )


def agent_to_wire(agent: Agent) -> JsonObject:
    """The agent in an answer, with `KEPT` instead of secrets."""
    fields = {name: getattr(agent, name) for name, field in SavedAgent.model_fields.items() if not field.exclude}
    fields["config"] = masked_config(agent.config, agent.form)
    shown = SavedAgent.model_construct(None, **fields)
    return {**shown.to_wire(), "revision": agent.revision}


def _with_default_mode(body: JsonObject, own: Agent) -> JsonObject:
    """The body with the concurrency mode of the built-in agent, unless the body has one."""
    policy = body.get("policy", {})
    concurrency = policy.get("concurrency", {}) if isinstance(policy, dict) else None
    if not isinstance(policy, dict) or not isinstance(concurrency, dict):
        return body  # the validation refuses it
    mode = own.policy.concurrency.mode
    return {**body, "policy": {**policy, "concurrency": {"mode": mode, **concurrency}}}


def _refuse_patterns(policy: AgentPolicy) -> None:
    """Refuse a pattern: it would match nothing. Stored agents may still have one."""
    for kind, rule in policy.access.resources.items():
        for name in (*rule.add, *(rule.only or ())):
            if "*" in name:
                where = f"policy.access.resources.{kind}"
                raise InvalidRequest(
                    f"{where}: {name} is a pattern; patterns are not supported, name each resource by its id",
                    reason="resource_pattern",
                    hint="`bollard capabilities` lists the ids",
                    field=where,
                    name=name,
                )
