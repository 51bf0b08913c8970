"""Listening beyond loopback: refused with a hint, and TLS if it is configured."""

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.tables import for_each

from bollard.host.errors import SettingsError
from bollard.host.exposure import own_address
from bollard.host.http.server.connection_table import ConnectionTimeouts
from bollard.host.http.server.server import tls_of
from bollard.host.settings import Settings, read_settings

_HTTPS = ("https://bollard.example.org",)
_SOON = ConnectionTimeouts(head_s=2, body_window_s=30, idle_s=30, drain_s=30, linger_s=1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate that signs itself, for this machine."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(cert_file), str(key_file)


@for_each("host", ["0.0.0.0", "::", "192.0.2.1", "bollard.example.org", "127.0.0.2", ""])
def test_a_public_address_needs_tls_or_the_origin_of_a_proxy(host: str) -> None:
    for settings in ({}, {"origins": ("http://bollard.example.org",)}):
        with pytest.raises(SettingsError) as refusal:
            Settings(host=host, **settings)
        assert refusal.value.details["field"] == "host"
        for way in ("--tls-cert", "--tls-key", "origins=https://", "127.0.0.1"):
            assert way in refusal.value.hint
    assert Settings(host=host, origins=_HTTPS).host == host
    assert Settings(host=host, tls_cert="cert.pem", tls_key="key.pem").host == host


@for_each(
    ("settings", "field"),
    [
        ({"tls_cert": "cert.pem"}, "tls_key"),
        ({"tls_key": "key.pem"}, "tls_cert"),
        ({"origins": ("bollard.example.org",)}, "origins"),
        ({"origins": ("https://bollard.example.org/",)}, "origins"),
        ({"origins": ("https://bollard.example.org/path",)}, "origins"),
        ({"origins": ("https://Bollard.example.org",)}, "origins"),
        ({"origins": ("https://user@bollard.example.org",)}, "origins"),
        ({"origins": ("ftp://bollard.example.org",)}, "origins"),
        ({"origins": ("https://a:b",)}, "origins"),
        ({"origins": ("*",)}, "origins"),
        ({"origins": ("null",)}, "origins"),
        ({"allowed_hosts": ("*",)}, "allowed_hosts"),
        ({"allowed_hosts": ("https://a",)}, "allowed_hosts"),
        ({"allowed_hosts": ("A",)}, "allowed_hosts"),
        ({"trusted_proxies": ("proxy",)}, "trusted_proxies"),
        ({"trusted_proxies": ("10.0.0.1/8",)}, "trusted_proxies"),
        ({"connections": 0}, "connections"),
        ({"connections_per_address": 0}, "connections_per_address"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"requests_at_once": 0}, "requests_at_once"),
    ],
)
def test_an_invalid_edge_setting_is_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        Settings(**settings)
    assert refusal.value.details["field"] == field
    assert refusal.value.hint


def test_the_lists_of_the_edge_are_read_from_the_environment_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "bollard.toml").write_text('trusted_proxies = ["10.0.0.0/8"]\nconnections = 5\n', encoding="utf-8")
    environment = {"BOLLARD_ORIGINS": "https://a.example, https://b.example:8443,", "BOLLARD_ALLOWED_HOSTS": "c.lan"}
    settings = read_settings(environment, tmp_path, {})
    assert settings.origins == ("https://a.example", "https://b.example:8443")
    assert (settings.allowed_hosts, settings.trusted_proxies) == (("c.lan",), ("10.0.0.0/8",))
    assert settings.connections == 5


@pytest.mark.parametrize(
    ("host", "tls", "address"),
    [
        ("127.0.0.1", False, "http://127.0.0.1:8420"),
        ("0.0.0.0", True, "https://127.0.0.1:8420"),
        ("::", True, "https://[::1]:8420"),
        ("::1", False, "http://[::1]:8420"),
    ],
)
def test_the_commands_of_this_machine_find_the_address_of_the_host(host: str, tls: bool, address: str) -> None:
    assert own_address(host, 8420, tls=tls) == address


def test_a_host_with_a_certificate_serves_tls(start: Any, certificate: tuple[str, str]) -> None:
    server = start(_SOON, tls_cert=certificate[0], tls_key=certificate[1])
    context = ssl.create_default_context(cafile=certificate[0])
    wire = server.wire(tls=context)
    for number in range(3):
        answer = wire.get(f"/{number}")
        assert (answer.status, answer.json["scheme"]) == (200, "https")
    assert answer.all("strict-transport-security") == ["max-age=31536000"]
    assert wire.get("/a", "Origin: https://localhost", "Cookie: bollard=a").status == 200
    assert wire.get("/a", "Origin: http://localhost", "Cookie: bollard=a").status == 403
    wire.send(b"GET /a HTTP/1.1\r\nHost: loc")
    late = wire.answer()
    assert late is not None
    assert late.status == 408
    assert wire.ended()


def test_a_plain_request_to_a_tls_port_gets_no_response(start: Any, certificate: tuple[str, str]) -> None:
    server = start(_SOON, tls_cert=certificate[0], tls_key=certificate[1])
    plain = server.wire()
    plain.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert plain.ended()
    assert b"HTTP/1.1" not in plain.received
    silent = server.wire()  # a handshake has the time of a head
    assert silent.ended()
    assert server.app.seen == []
    old = ssl.create_default_context(cafile=certificate[0])
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    assert server.wire(tls=old).get("/a").status == 200


def test_an_unusable_certificate_is_refused_with_a_message(certificate: tuple[str, str], tmp_path: Path) -> None:
    broken, locked = tmp_path / "broken.pem", tmp_path / "locked.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnope\n-----END CERTIFICATE-----\n", encoding="ascii")
    other = ec.generate_private_key(ec.SECP256R1())
    password = serialization.BestAvailableEncryption(b"secret")
    locked.write_bytes(other.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, password))
    for cert, key, field in (
        (str(tmp_path / "none.pem"), certificate[1], "tls_cert"),
        (certificate[0], str(tmp_path / "none.pem"), "tls_key"),
        (str(broken), certificate[1], "tls_cert"),
        (certificate[0], str(locked), "tls_cert"),
        (certificate[0], certificate[0], "tls_cert"),
    ):
        with pytest.raises(SettingsError) as refusal:
            tls_of(Settings(tls_cert=cert, tls_key=key))
        assert refusal.value.details["field"] == field
        assert refusal.value.hint
