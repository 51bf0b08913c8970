"""An agent as a person saves it, and as it is shown. Reading and writing only: who keeps it is not decided here.

A secret is shown as `KEPT`, and `KEPT` saved back means the secret that is there: of the same agent, and for the same
runner only, so that nobody can point an agent at another plugin and have it read what was entered for the first.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from bollard.host.agents.agent import Agent, agent_of
from bollard.host.agents.config_form import config_from_wire, masked_config
from bollard.host.agents.names import ChosenName
from bollard.host.agents.policies import AgentPolicy, policy_from_wire, policy_to_wire
from bollard.host.agents.saved_body import refusal
from bollard.host.errors import Conflict, InvalidRequest
from bollard.host.limits import RUN_DEADLINE_MAX_S
from bollard.protocol import AgentRunnerDiscovery, Flag, Int, JsonObject, Localized, Number, Strict, limits

_LOCALES: Final = 32
"""Languages of one label."""


def _says_something(text: dict[str, str]) -> dict[str, str]:
    if not any(words.strip() for words in text.values()):
        raise ValueError("needs a text in some language, for example en_US")
    return text


_Label = Annotated[Localized, Field(max_length=_LOCALES), AfterValidator(_says_something)]
_Seconds = Annotated[Number, Field(gt=0, le=RUN_DEADLINE_MAX_S)]


class _PolicyForm:
    """What is described is the policy; what is read here is an object, which those read who know policies."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        del schema
        policies = TypeAdapter(AgentPolicy)
        policies.rebuild()
        return handler(policies.core_schema)


class SavedAgent(Strict):
    """The body. `policy` and `config` are read by those who know them."""

    agent_id: ChosenName
    runner_id: str = Field(min_length=1, max_length=4 * limits.NAME_CHARACTERS)
    label: _Label | None = None
    description: _Label | None = None
    config: JsonObject = Field(default_factory=dict)
    policy: Annotated[JsonObject, _PolicyForm] = Field(default_factory=dict)
    deadline_s: _Seconds = limits.RUN_DEADLINE_S
    idle_s: _Seconds = limits.RUN_IDLE_S
    repeatable: Flag = False
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


def runner_named(body: JsonObject) -> str:
    """The id of the runner that a body names, so that the runner can be looked up."""
    return _read(body).runner_id


def agent_from_wire(
    body: JsonObject,
    runner: AgentRunnerDiscovery | None,
    workspace: str,
    revision: int,
    *,
    known: Iterable[str] = (),
    before: Agent | None = None,
) -> Agent:
    """The agent that a person saves as this revision; raises where it cannot work.

    `runner` is what `runner_named` names, `None` where there is none; `known` are the runners to name then. `before` is
    the agent that this one replaces.
    """
    saved = _read(body)
    if runner is None or runner.manifest.id != saved.runner_id:
        offered = ", ".join(sorted(known))
        raise InvalidRequest(
            f"agent.runner_id: there is no runner {saved.runner_id}",
            reason="no_runner" if offered else "no_runners",
            hint=f"use one of {offered}" if offered else "no plugin offers a runner now; start one first",
            field="agent.runner_id",
            runner=saved.runner_id,
            names=offered,
        )
    if saved.revision is not None and saved.revision != revision - 1:
        raise Conflict(
            f"agent {saved.agent_id} is at revision {revision - 1}, but revision {saved.revision} was edited",
            reason="agent_revision",
            hint="read the agent again and repeat the change",
            agent=saved.agent_id,
            revision=revision - 1,
            edited=saved.revision,
        )
    own = agent_of(runner, workspace)
    kept = before.config if before is not None and _is_same(before, saved, workspace) else None
    policy = policy_from_wire(saved.policy, steering="steering" in own.capabilities)
    _refuse_patterns(policy)
    config = config_from_wire(saved.config, own.form, before=kept)
    return _agent(saved, own, policy, config, workspace=workspace, revision=revision)


def _refuse_patterns(policy: AgentPolicy) -> None:
    """A pattern would match nothing, and whoever wrote it believes that it does. One that is on disk stays."""
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


def agent_from_store(body: JsonObject, workspace: str, revision: int) -> Agent:
    """An agent that was saved before. Its runner may not be there yet: until then it may be granted nothing.

    The configuration is not held against a form again: the form may be a newer one, and that is for the runner to say.
    """
    saved = _read(body)
    author, name, runner = _parts(saved.runner_id)
    own = Agent(
        agent_id=saved.agent_id,
        runner_id=saved.runner_id,
        runner_name=runner,
        plugin=f"{author}/{name}",
        label={"en_US": saved.agent_id},
    )
    policy = policy_from_wire(saved.policy)
    return _agent(saved, own, policy, saved.config, workspace=workspace, revision=revision)


def agent_to_wire(agent: Agent, *, masked: bool = True) -> JsonObject:
    """What `agent_from_wire` takes. Without the mask it holds secrets, and is for the store alone."""
    body: JsonObject = {
        "agent_id": agent.agent_id,
        "runner_id": agent.runner_id,
        "label": {**agent.label},
        "config": masked_config(agent.config, agent.form) if masked else {**agent.config},
        "policy": policy_to_wire(agent.policy),
        "deadline_s": agent.deadline_s,
        "idle_s": agent.idle_s,
        "repeatable": agent.repeatable,
        "revision": agent.revision,
    }
    if agent.description is not None:
        body["description"] = {**agent.description}
    return body


def _read(body: JsonObject) -> SavedAgent:
    try:
        return SavedAgent.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "agent") from error


def _is_same(before: Agent, saved: SavedAgent, workspace: str) -> bool:
    there = (before.workspace, before.agent_id, before.runner_id)
    return there == (workspace, saved.agent_id, saved.runner_id)


def _agent(
    saved: SavedAgent, own: Agent, policy: AgentPolicy, config: JsonObject, *, workspace: str, revision: int
) -> Agent:
    return Agent(
        agent_id=saved.agent_id,
        workspace=workspace,
        runner_id=own.runner_id,
        runner_name=own.runner_name,
        plugin=own.plugin,
        label=_text(saved.label) or own.label,
        description=_text(saved.description) or own.description,
        permissions=own.permissions,
        capabilities=own.capabilities,
        form=own.form,
        config=config,
        policy=policy,
        deadline_s=saved.deadline_s,
        idle_s=saved.idle_s,
        repeatable=saved.repeatable,
        revision=revision,
    )


def _text(text: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if text is None else dict(text)


def _parts(runner_id: str) -> tuple[str, str, str]:
    parts = runner_id.removeprefix("plugin:").split("/")
    if not runner_id.startswith("plugin:") or len(parts) != 3 or not all(parts):
        raise InvalidRequest(
            f"agent.runner_id: {runner_id} is not a runner id",
            reason="runner_id",
            hint="a runner id has the form plugin:author/name/runner",
            field="agent.runner_id",
            runner=runner_id,
        )
    return parts[0], parts[1], parts[2]
