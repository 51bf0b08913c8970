"""`bollard skills add` reads a folder by the rules of a host, and reports problems before any request."""

from pathlib import Path

import pytest

from bollard.cli.agents.skills import pack_skill
from bollard.cli.errors import UsageProblem

TEXT = "---\nname: greeting\ndescription: Greets.\n---\nSay hello.\n"


def folder(place: Path, name: str = "greeting") -> Path:
    made = place / name
    made.mkdir()
    (made / "SKILL.md").write_text(TEXT)
    return made


def test_hidden_files_and_links_are_not_sent(tmp_path: Path) -> None:
    made = folder(tmp_path)
    (tmp_path / "key").write_text("canary")
    (made / "key").symlink_to(tmp_path / "key")
    (made / ".git").mkdir()
    (made / ".git" / "config").write_text("canary")
    (made / "logo").write_bytes(b"\xff\x00")
    (made / "notes").mkdir()
    (made / "notes" / "a.md").write_text("a")
    name, body = pack_skill(made)
    assert name == "greeting"
    assert body == {
        "files": [
            {"path": "SKILL.md", "text": TEXT},
            {"path": "logo", "content_base64": "/wA="},
            {"path": "notes/a.md", "text": "a"},
        ]
    }


@pytest.mark.parametrize("name", ["other", "nothing"])
def test_a_folder_without_a_skill_is_refused_with_a_hint(tmp_path: Path, name: str) -> None:
    place = folder(tmp_path, "other") if name == "other" else tmp_path / "nothing"
    with pytest.raises(UsageProblem) as refused:
        pack_skill(place)
    assert refused.value.hint
