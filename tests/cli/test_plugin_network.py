"""The network of a plugin that a command starts without a host: its manifest decides, as on a host."""

from pathlib import Path

import pytest
from tests.doubles.fetching_plugin import page_server, write_fetching_plugin

from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import choose_level

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not (
            choose_level("best", machine_findings()).namespaces or choose_level("best", machine_findings()).limits_ports
        ),
        reason="no level with a network on this machine",
    ),
]


def test_a_run_reaches_a_name_of_the_manifest_and_no_other(bollard, tmp_path: Path) -> None:
    with page_server() as port:
        write_fetching_plugin(tmp_path / "fetch", port)
        words = ("--message", f"http://localhost:{port}/", "--message", f"http://127.0.0.1:{port}/")
        done = bollard("plugin", "run", "fetch", "--text", *words, BOLLARD_EGRESS_ALLOW=f"localhost:{port}")
    assert "hello" in done.out
    assert f"spec.sandbox.network of acme/fetch does not admit 127.0.0.1:{port}" in done.out
    assert f"connection to localhost:{port}: closed (1 ×" in done.err
    assert f"connection to 127.0.0.1:{port}: refused, spec.sandbox.network" in done.err


def test_a_run_obeys_the_rules_for_addresses(bollard, tmp_path: Path) -> None:
    with page_server() as port:
        write_fetching_plugin(tmp_path / "fetch", port)
        done = bollard("plugin", "run", "fetch", "--text", "--message", f"http://localhost:{port}/")
    assert "hello" not in done.out
    assert f"connection to localhost:{port}: refused by the rules for addresses" in done.err


def test_an_invalid_rule_for_addresses_is_explained(bollard, tmp_path: Path) -> None:
    write_fetching_plugin(tmp_path / "fetch", 80)
    done = bollard("plugin", "run", "fetch", "--message", "x", BOLLARD_EGRESS_ALLOW="10.0.0.0/99")
    assert (done.code, "egress_allow" in done.err) == (4, True)


def test_a_check_loads_a_plugin_with_the_network_of_its_manifest(bollard, tmp_path: Path) -> None:
    fetch = "\nimport urllib.request\nurllib.request.urlopen('http://{}:{}/').read()\n"
    with page_server() as port:
        write_fetching_plugin(tmp_path / "fetch", port, at_import=fetch.format("localhost", port))
        allowed = bollard("plugin", "check", "fetch", BOLLARD_EGRESS_ALLOW=f"localhost:{port}")
        write_fetching_plugin(tmp_path / "fetch", port, at_import=fetch.format("127.0.0.1", port))
        refused = bollard("plugin", "check", "fetch", BOLLARD_EGRESS_ALLOW=f"localhost:{port}")
    assert allowed.json["usable"][0]["name"] == "default"
    assert f"does not admit 127.0.0.1:{port}" in str(refused.json["findings"])
