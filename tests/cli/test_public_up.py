"""`bollard up` beyond loopback: refused with the fix, and over TLS afterwards.

127.0.0.2 stands for a public address: it is not a name of loopback, and yet no other machine can reach it.
"""

import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.certificates import self_signed
from tests.cli.conftest import BOLLARD, environment

pytestmark = pytest.mark.full


_PUBLIC = "127.0.0.2"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate that signs itself, for this address."""
    return self_signed(tmp_path_factory.mktemp("tls"), _PUBLIC)


@pytest.mark.parametrize("language", ["en_US", "zh_Hans"])
def test_a_public_host_without_tls_is_refused_with_the_fix(bollard, language: str) -> None:
    done = bollard("up", "--host", _PUBLIC, BOLLARD_LANG=language)
    assert (done.code, done.out) == (2, "")
    for way in ("--tls-cert", "--tls-key", "BOLLARD_ORIGINS=https://", "127.0.0.1"):
        assert way in done.err


@pytest.mark.smoke
def test_a_public_host_with_a_certificate_serves_tls_and_the_commands_find_it(
    new_host, bollard, certificate: tuple[str, str]
) -> None:
    cert, key = certificate
    host = new_host().start("--host", _PUBLIC, "--tls-cert", cert, "--tls-key", key)
    address = f"https://{_PUBLIC}:{host.port}"
    assert next(line["address"] for line in host.told if line["event"] == "listening") == address
    trusting = {**host.variables, "SSL_CERT_FILE": cert, "BOLLARD_URL": address}
    assert bollard("agents", **trusting).code == 0
    said = bollard("chat", "--agent", "echo", "--message", "hello over TLS", **trusting)
    assert (said.code, "hello over TLS" in said.out) == (0, True)
    untrusted = bollard("agents", **host.variables, BOLLARD_URL=address)
    assert (untrusted.code, "SSL_CERT_FILE" in untrusted.err) == (4, True)
    plain = bollard("agents", **{**trusting, "BOLLARD_URL": f"http://{_PUBLIC}:{host.port}"})
    assert (plain.code, plain.err.splitlines()[-1]) == (4, f"hint: use {address}")
    assert host.signal(signal.SIGTERM) == 0
    assert "Traceback" not in host.log


def test_a_public_host_behind_a_tls_proxy_needs_only_its_origin(new_host, bollard) -> None:
    host = new_host().start("--host", _PUBLIC, BOLLARD_ORIGINS="https://bollard.example.org")
    address = f"http://{_PUBLIC}:{host.port}"
    assert bollard("agents", **host.variables, BOLLARD_URL=address).code == 0


def test_an_unusable_certificate_is_refused_before_the_start(
    bollard, certificate: tuple[str, str], tmp_path: Path
) -> None:
    for cert, key in ((certificate[0], "none.pem"), ("none.pem", certificate[1]), (certificate[1], certificate[1])):
        done = bollard("up", "--data", "d", "--tls-cert", cert, "--tls-key", key)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 2), done.err
        assert not (tmp_path / "d/bollard.db").exists()
    done = bollard("up", "--data", "d", "--tls-cert", certificate[0])
    assert (done.code, "tls_key is missing" in done.err) == (2, True)


def test_a_runtime_connects_over_tls_if_it_trusts_the_certificate(
    new_host, bollard, write, certificate: tuple[str, str], tmp_path: Path
) -> None:
    cert, key = certificate
    host = new_host().start("--host", _PUBLIC, "--tls-cert", cert, "--tls-key", key)
    trusting = {**host.variables, "SSL_CERT_FILE": cert, "BOLLARD_URL": f"https://{_PUBLIC}:{host.port}"}
    code = bollard("runtimes", "enroll", "afar", **trusting).json["code"]
    plugin = write(
        "afar.py", "from bollard.sdk import runner\n\n@runner(label='Afar')\nasync def afar(ctx):\n    yield 'hi'\n"
    )
    dialled = ("runtime", str(plugin), "--connect", f"wss://{_PUBLIC}:{host.port}", "--key", str(tmp_path / "k.json"))
    refused = bollard(*dialled, "--enroll", code)
    assert (refused.code, "cannot be verified" in refused.err) == (4, True), refused.err
    with subprocess.Popen(
        [BOLLARD, *dialled, "--enroll", code],
        env=environment(SSL_CERT_FILE=cert),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as runtime:
        try:
            assert runtime.stderr is not None
            said = iter(runtime.stderr.readline, b"")
            assert any(b"connected to" in line for line in said)
            shown = bollard("runtimes", "show", "afar", **trusting).json
            assert shown["status"] == "waiting"
        finally:
            runtime.terminate()
    assert runtime.returncode == 0
