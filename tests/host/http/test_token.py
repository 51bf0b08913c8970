"""The admin token: created once, stored as a digest, never shown again."""

import stat
from pathlib import Path

import pytest

from bollard.host.http.auth.callers import AdminToken


def test_a_token_is_generated_once_and_only_its_digest_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "token"
    check, token = AdminToken.open(path)
    assert token is not None
    assert check.allows(f"Bearer {token}")
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again, shown = AdminToken.open(path)
    assert shown is None
    assert again.allows(f"Bearer {token}")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_case_insensitive(tmp_path: Path, scheme: str) -> None:
    check, token = AdminToken.open(tmp_path / "token")
    assert check.allows(f"{scheme} {token}")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic {token}", "{token}", "Bearer x{token}"])
def test_any_other_value_is_not_the_token(tmp_path: Path, header: str | None) -> None:
    check, token = AdminToken.open(tmp_path / "token")
    assert not check.allows(header if header is None else header.format(token=token))


def test_the_stored_digest_is_not_a_token(tmp_path: Path) -> None:
    check, _ = AdminToken.open(tmp_path / "token")
    assert not check.allows(f"Bearer {(tmp_path / 'token').read_text().strip()}")
