"""The page about identity agrees with the code."""

import re
from typing import Any

from bollard.host import limits
from bollard.host.agents.policies import RULE_ROLES
from bollard.host.identity.caller import INSTALLATION_RIGHTS, RIGHTS, ROLES, rights_of


def _section(pages: dict[str, Any], title: str) -> str:
    return pages["docs/reference/identity.md"].prose.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_role_is_listed_with_its_added_rights(pages: dict[str, Any]) -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^:]+: (.+) \|$", _section(pages, "Roles"), re.MULTILINE)
    before: frozenset[str] = frozenset()
    assert [role for role, _ in rows] == list(ROLES)
    for role, named in rows:
        assert set(re.findall(r"`([a-z.]+)`", named)) == rights_of(role) - before
        before = rights_of(role)
    said = _section(pages, "Roles").split("The installation alone has")[1]
    assert set(re.findall(r"`([a-z.]+)`", said)) == INSTALLATION_RIGHTS


def test_every_right_is_listed(pages: dict[str, Any]) -> None:
    assert re.findall(r"^\| `([a-z.]+)` \|", _section(pages, "Rights"), re.MULTILINE) == list(RIGHTS)


def test_the_roles_of_audience_rules_match_the_code() -> None:
    assert RULE_ROLES == ROLES


def test_the_numbers_match_the_code(pages: dict[str, Any]) -> None:
    prose = " ".join(pages["docs/reference/identity.md"].prose.split())
    day = 24 * 3600
    for sentence in (
        f"Passwords have {limits.PASSWORD_LEAST_CHARACTERS} to {limits.PASSWORD_CHARACTERS} characters",
        f"one user may be tried {limits.LOGINS_PER_MINUTE} times a minute",
        f"all users together {limits.LOGINS_OF_ADDRESS_PER_MINUTE} times",
        f"one user {limits.LOGINS_OF_USER_PER_MINUTE} times from everywhere",
        f"at most {limits.SESSIONS_OF_USER} sessions",
        f"after {limits.SESSION_S / day:g} days, used or not",
        f"after {limits.KEY_LIFE_S / day:g} days by default",
    ):
        assert sentence in prose, sentence
    decision = " ".join(pages["docs/decisions/0032-the-right-to-edit-an-agent-overrides-its-rules.md"].prose.split())
    assert f"its newest {limits.PARTICIPANT_EVENTS} events" in decision
