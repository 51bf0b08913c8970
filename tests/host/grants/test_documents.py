"""Documents of knowledge bases among the files of a grant: they come with their base, and go with it."""

from typing import Any

import pytest

from bollard.host.grants.access import compile_access
from bollard.host.grants.check import ALLOWED, NOT_FOUND, REVOKED, check
from bollard.host.grants.child import narrow
from bollard.host.grants.explanation import explain
from bollard.host.grants.revocation import NOTHING_REVOKED, revoke

DOCUMENT = "kb:manual/leave.md"


def test_access_to_a_knowledge_base_covers_its_documents_and_no_others(granting: Any) -> None:
    grant = granting.grant()
    assert check(grant, NOTHING_REVOKED, "files.get", DOCUMENT) == ALLOWED
    assert explain(grant, NOTHING_REVOKED, "files.get", DOCUMENT).allowed
    for other in ("kb:elsewhere/leave.md", "kb:manual", "manual/leave.md", "xkb:manual/leave.md"):
        assert check(grant, NOTHING_REVOKED, "files.get", other) == NOT_FOUND["files"]


@pytest.mark.parametrize(
    "asked",
    [
        {"resources": {"knowledge_bases": ["manual"]}},
        {"resources": {"files": ["kb:manual/"]}},
        {"operations": ["knowledge_bases.retrieve"]},
        {"operations": ["files.knowledge"]},
    ],
)
def test_revoking_a_knowledge_base_revokes_its_documents(granting: Any, asked: Any) -> None:
    grant = granting.grant()
    taken = revoke(grant, NOTHING_REVOKED, **asked)
    assert check(grant, taken, "files.get", DOCUMENT) == REVOKED
    assert check(grant, taken, "files.get", "logo") == ALLOWED


@pytest.mark.parametrize(
    "asked", [{"resources": {"knowledge_bases": ["manual"]}}, {"operations": ["knowledge_bases.retrieve"]}]
)
def test_a_child_without_a_knowledge_base_has_none_of_its_documents(granting: Any, asked: Any) -> None:
    grant = granting.grant()
    child = narrow(compile_access(granting.agent(), granting.offer), grant, NOTHING_REVOKED).rights
    assert "kb:manual/" in child.resources["files"]
    taken = revoke(grant, NOTHING_REVOKED, **asked)
    child = narrow(compile_access(granting.agent(), granting.offer), grant, taken).rights
    assert "kb:manual/" not in child.resources["files"]
    assert child.withheld_resources["files"]["kb:manual/"] == "parent"
