"""The tokens that this user's commands know."""

import stat
from pathlib import Path

import pytest

from bollard.cli.client.credentials import Credential, Credentials, credentials_path

ONE = Credential(address="http://127.0.0.1:1", data="/a", token="token-1")
TWO = Credential(address="http://127.0.0.1:2", data="/b", token="token-2")


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path / "config" / "bollard" / "credentials.json")


def test_a_token_is_found_by_its_address(credentials: Credentials) -> None:
    credentials.save(ONE)
    credentials.save(TWO)
    assert credentials.token_for(ONE.address) == "token-1"
    assert credentials.token_for(TWO.address) == "token-2"
    assert credentials.token_for("http://127.0.0.1:3") is None


def test_only_the_user_can_read_it(credentials: Credentials) -> None:
    credentials.save(ONE)
    assert stat.S_IMODE(credentials.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials.path.parent.stat().st_mode) == 0o700
    assert [file.name for file in credentials.path.parent.iterdir()] == ["credentials.json"]


def test_a_host_that_moves_to_another_port_keeps_its_token(credentials: Credentials) -> None:
    credentials.save(ONE)
    credentials.save(Credential(address="http://127.0.0.1:9", data="/a", token="token-1"))
    assert credentials.token_for("http://127.0.0.1:9") == "token-1"
    assert credentials.token_for(ONE.address) is None


def test_two_hosts_that_alternate_at_an_address_keep_their_tokens(credentials: Credentials) -> None:
    credentials.save(ONE)
    credentials.save(Credential(address=ONE.address, data="/b", token="token-2"))
    assert credentials.token_for(ONE.address) == "token-2"
    known = credentials.of_data("/a")
    assert known is not None
    assert known.token == "token-1"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"hosts": [{"address": 1}]}', '{"hosts": 3}', "\ud800"])
def test_an_unreadable_file_counts_as_empty(credentials: Credentials, content: str) -> None:
    credentials.path.parent.mkdir(parents=True)
    credentials.path.write_bytes(content.encode("utf-8", "surrogatepass"))
    assert credentials.token_for(ONE.address) is None
    credentials.save(ONE)
    assert credentials.token_for(ONE.address) == "token-1"


def test_the_path_follows_the_environment() -> None:
    assert credentials_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/bollard/credentials.json")
    assert credentials_path({"HOME": "/h"}) == Path("/h/.config/bollard/credentials.json")
    assert credentials_path({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path(
        "/h/.config/bollard/credentials.json"
    )


def test_a_session_overrides_the_token_of_the_host_until_it_ends(credentials: Credentials) -> None:
    credentials.save(ONE)
    credentials.begin_session(ONE.address, "session-1")
    credentials.begin_session(ONE.address, "session-2")
    credentials.begin_session(TWO.address, "session-3")
    assert credentials.token_for(ONE.address) == "session-2"
    assert credentials.session_for(TWO.address) == "session-3"
    credentials.save(ONE)  # the same host starts again
    assert credentials.token_for(ONE.address) == "session-2"
    credentials.end_session(ONE.address)
    assert credentials.session_for(ONE.address) is None
    assert credentials.token_for(ONE.address) == "token-1"
    assert credentials.session_for(TWO.address) == "session-3"


def test_a_session_of_a_replaced_host_is_forgotten(credentials: Credentials) -> None:
    credentials.save(ONE)
    credentials.begin_session(ONE.address, "session-1")
    credentials.save(Credential(address=ONE.address, data="/b", token="token-2"))
    assert credentials.token_for(ONE.address) == "token-2"
    known = credentials.of_data("/a")
    assert known is not None
    assert known.token == "token-1"
