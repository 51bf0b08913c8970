"""The offline host of the SDK and the gate of this host decide alike about the permissions of a manifest."""

from typing import Any

from tests.host.grants.test_check import GOOD
from tests.tables import for_each

from bollard.host.agents.policies import OPERATIONS
from bollard.host.grants.check import RULES, Denied, check
from bollard.host.grants.revocation import NOTHING_REVOKED
from bollard.protocol import ACTIONS, AgentRunnerPermissions
from bollard.sdk import AgentAPIException
from bollard.sdk.testing.grant import Grant

FITTING = {"chat": ("invoke", "stream"), "sorter": ("rerank",), "vectors": ("embed",)}
"""By model, the operations of its type. The offline host scripts them, this host knows them by the type."""


def manifests(action: str) -> list[dict[str, tuple[str, ...]]]:
    """Nothing, everything, each single operation of the action's family, and everything but one."""
    family = RULES[action].family
    names = FITTING.get(GOOD.get(action, ""), OPERATIONS.get(family, ()))
    rest = {other: held for other, held in OPERATIONS.items() if other != family}
    alone = [{**rest, family: (name,)} for name in names]
    but_one = [{**rest, family: tuple(each for each in names if each != name)} for name in names]
    return [{}, dict(OPERATIONS), rest, *alone, *but_one]


def code_here(granting: Any, permissions: dict[str, tuple[str, ...]], action: str) -> str | None:
    held = frozenset(f"{family}.{name}" for family, names in permissions.items() for name in names)
    answer = check(granting.grant(granting.agent(permissions=held)), NOTHING_REVOKED, action, GOOD.get(action))
    return answer.code if isinstance(answer, Denied) else None


def code_offline(permissions: dict[str, tuple[str, ...]], action: str) -> str | None:
    parameter = RULES[action].parameter
    # Only the parameter that names the resource is read.
    params = ACTIONS[action].params.model_construct(**({parameter: GOOD[action]} if parameter else {}))
    try:
        Grant(permissions=AgentRunnerPermissions.model_validate(permissions)).check(action, params)
    except AgentAPIException as error:
        return error.code
    return None


@for_each("action", ACTIONS)
def test_the_offline_host_and_the_host_deny_the_same_actions(granting: Any, action: str) -> None:
    for permissions in manifests(action):
        offline, here = code_offline(permissions, action), code_here(granting, permissions, action)
        assert offline == here, f"{action} with {permissions.get(RULES[action].family)}"
