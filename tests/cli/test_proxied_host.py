"""A host behind a proxy: its witness and its traces leave through it."""

import signal
from pathlib import Path

import pytest
from tests.cli.conftest import RunningHost
from tests.doubles.post_sink import post_sink
from tests.doubles.proxy_server import proxy_server


@pytest.mark.full
def test_a_host_with_a_proxy_uses_it_for_its_witness_and_its_traces(tmp_path: Path, bollard) -> None:
    host = RunningHost(tmp_path)
    with post_sink() as sink, proxy_server(sink.server_port) as proxy:
        places = {"BOLLARD_WITNESS": "http://192.0.2.7/heads", "BOLLARD_OTEL_ENDPOINT": "http://192.0.2.8:4318"}
        proxied = {**places, "BOLLARD_PROXY": proxy.url("http")}
        try:
            host.start(**proxied)
            assert bollard("chat", "--message", "count 3", **host.variables).code == 0
            assert host.signal(signal.SIGTERM) == 0
        finally:
            host.close()
        assert set(proxy.targets) == {"192.0.2.7:80", "192.0.2.8:4318"}
        assert {path for _, path in sink.came} == {"/heads", "/v1/traces"}
        checked = bollard("audit", "verify", "--data", str(host.data), **host.variables, **proxied)
        assert "witness" in checked.err + checked.out
        assert proxy.targets[-1] == "192.0.2.7:80"
