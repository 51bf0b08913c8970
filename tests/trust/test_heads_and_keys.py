"""Signed heads, and the files that hold the keys: made once, the owner's alone."""

import os
import stat
from pathlib import Path

import pytest
from tests.replacement import replace

from bollard.trust import BadSignature, Head, KeyFileError, sign_head, verify_head
from bollard.trust.key_files import load_or_make_secret
from bollard.trust.keys import SigningKey, load_or_make_signing_key

HEAD = Head(workspace="acme", chain="0190a", position=7, hash="a" * 64, created_ms=1_700_000_000_000)


@pytest.fixture
def key() -> SigningKey:
    return SigningKey(SigningKey.new_secret())


def test_a_signed_head_verifies_with_the_public_key(key: SigningKey) -> None:
    signed = sign_head(HEAD, key)
    assert signed.key_id == key.verify_key.key_id
    verify_head(signed, key.verify_key)


@pytest.mark.parametrize(
    "change",
    [
        {"workspace": "other"},
        {"chain": "0190b"},
        {"position": 8},
        {"hash": "b" * 64},
        {"created_ms": 1_700_000_000_001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_head_changed_in_any_field_does_not_verify(key: SigningKey, change: dict[str, object]) -> None:
    signed = sign_head(HEAD, key)
    forged = replace(signed, head=replace(HEAD, **change))
    with pytest.raises(BadSignature):
        verify_head(forged, key.verify_key)


def test_a_signature_with_a_flipped_bit_does_not_verify(key: SigningKey) -> None:
    signed = sign_head(HEAD, key)
    for at in range(len(signed.signature) * 8):
        flipped = bytearray(signed.signature)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(BadSignature):
            verify_head(replace(signed, signature=bytes(flipped)), key.verify_key)


@pytest.mark.parametrize("signature", [b"", b"short", b"\x00" * 64, b"\x00" * 65])
def test_a_malformed_signature_does_not_verify(key: SigningKey, signature: bytes) -> None:
    with pytest.raises(BadSignature):
        verify_head(replace(sign_head(HEAD, key), signature=signature), key.verify_key)


def test_another_key_does_not_verify_and_has_another_id(key: SigningKey) -> None:
    other = SigningKey(SigningKey.new_secret())
    assert other.verify_key.key_id != key.verify_key.key_id
    with pytest.raises(BadSignature) as refusal:
        verify_head(sign_head(HEAD, other), key.verify_key)
    assert key.verify_key.key_id in str(refusal.value)


def test_a_signing_key_does_not_show_its_secret() -> None:
    secret = SigningKey.new_secret()
    assert secret.hex() not in repr(SigningKey(secret))


# --- files ---


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_key_files_are_created_once_and_private_to_their_owner(tmp_path: Path) -> None:
    inherited = os.umask(0)
    try:
        first = load_or_make_signing_key(tmp_path / "keys" / "heads")
        secret = load_or_make_secret(tmp_path / "keys" / "cursors")
    finally:
        os.umask(inherited)
    assert (_mode(tmp_path / "keys" / "heads"), _mode(tmp_path / "keys" / "cursors")) == (0o600, 0o600)
    written = (tmp_path / "keys" / "heads").read_bytes()
    again = load_or_make_signing_key(tmp_path / "keys" / "heads")
    assert again.verify_key.key_id == first.verify_key.key_id
    assert load_or_make_secret(tmp_path / "keys" / "cursors") == secret
    assert (tmp_path / "keys" / "heads").read_bytes() == written


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_key_file_accessible_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "heads"
    load_or_make_signing_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError) as refusal:
        load_or_make_signing_key(path)
    assert refusal.value.hint == "chmod 600 heads"


@pytest.mark.parametrize("content", [b"", b"not hex", b"ab" * 31, b"ab" * 33, b"\xff\xfe\x00", b"zz" * 32])
def test_a_key_file_with_other_content_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "heads"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError) as refusal:
        load_or_make_signing_key(path)
    assert refusal.value.problem == "does not hold a key"
    assert refusal.value.hint
    assert path.read_bytes() == content


def test_an_unreadable_key_file_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "heads").mkdir()
    with pytest.raises(KeyFileError) as refusal:
        load_or_make_signing_key(tmp_path / "heads")
    assert "hint:" in str(refusal.value)


def test_an_impossible_key_folder_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")
    with pytest.raises(KeyFileError) as caught:
        load_or_make_secret(tmp_path / "keys" / "deeper" / "cursors.secret")
    assert caught.value.hint


def test_a_key_is_the_only_file_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "data" / "keys" / "cursors.secret"
    assert load_or_make_secret(path) == load_or_make_secret(path)
    assert list(path.parent.iterdir()) == [path]
