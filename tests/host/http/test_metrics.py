"""`/metrics`: every number an operator needs, in a format that a scraper reads, and only with the right."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.http.resources.metrics import OpenMetrics
from bollard.host.settings import Settings

Parse = Callable[[str], dict[str, Any]]
Key = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture
def scrape(api: Any, parse_metrics: Parse) -> Callable[[], dict[Key, float]]:
    """Every sample of the host, by name and labels."""

    def read() -> dict[Key, float]:
        answer = api.get("/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = parse_metrics(answer.body.decode())
        return {key: value for family in families.values() for key, value in family.samples.items()}

    return read


def test_a_run_is_counted_from_its_start_to_its_end(api: Any, scrape: Any) -> None:
    before = scrape()
    assert api.ended(api.say("one two three"))["status"] == "completed"
    after = scrape()

    def grown(name: str, **labels: str) -> float:
        key = (name, tuple(labels.items()))
        return after.get(key, 0.0) - before.get(key, 0.0)

    assert grown("bollard_runs_begun_total") == 1
    assert grown("bollard_runs_ended_total", status="completed", reason="") == 1
    assert grown("bollard_first_delta_seconds_count") == 1
    assert grown("bollard_first_delta_seconds_sum") > 0
    assert grown("bollard_journal_flush_seconds_count") >= 2
    assert grown("bollard_journal_batch_entries_count") == grown("bollard_journal_flush_seconds_count")
    assert grown("bollard_journal_records_total") >= 5
    assert grown("bollard_http_requests_total", operation="createRun", **{"class": "2xx"}) == 1
    assert after["bollard_runs_begun_total", ()] >= 1
    assert after["bollard_queue_runs", ()] == 0
    assert after["bollard_queue_age_seconds", ()] == 0


def test_a_running_run_shows_with_its_state_and_its_reader(api: Any, scrape: Any) -> None:
    run_id = api.say("wait")
    stream = api.stream(run_id)
    stream.until("message.delta")
    going = scrape()
    assert going["bollard_runs", (("state", "running"),)] == 1
    assert going["bollard_readers", ()] == 1
    assert api.post(f"/api/v1/runs/{run_id}/cancel").status in (200, 202)
    assert stream.until("run.ended").data["data"]["code"] == "cancelled"
    stream.close()
    ended = scrape()
    assert ended["bollard_runs_ended_total", (("status", "cancelled"), ("reason", "cancelled"))] >= 1


def test_a_worker_that_dies_is_counted_by_its_plugin(api: Any, scrape: Any) -> None:
    lost: Key = ("bollard_worker_losses_total", (("plugin", "parrot"),))
    before = scrape()[lost]
    assert api.ended(api.say("die"))["status"] == "failed"
    api.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    after = scrape()
    assert after[lost] == before + 1
    assert after["bollard_workers", (("plugin", "parrot"),)] == 1
    assert after["bollard_plugins_quarantined", (("plugin", "parrot"),)] == 0
    assert after["bollard_runs_ended_total", (("status", "failed"), ("reason", "runner.crashed"))] >= 1


def test_refused_requests_are_counted_too(api: Any, scrape: Any) -> None:
    key: Key = ("bollard_http_requests_total", (("operation", "createRun"), ("class", "4xx")))
    before = scrape().get(key, 0.0)
    assert api.post("/api/v1/runs", {"nonsense": 1}).status == 400
    assert api.post("/api/v1/runs", {}, token=None).status == 401
    nothing: Key = ("bollard_http_requests_total", (("operation", "none"), ("class", "4xx")))
    lost = scrape().get(nothing, 0.0)
    assert api.get("/nowhere").status == 404
    after = scrape()
    assert (after[key], after[nothing]) == (before + 2, lost + 1)


def test_the_process_itself_is_measured(scrape: Any) -> None:
    found = scrape()
    assert found["process_cpu_seconds_total", ()] > 0
    assert found["process_resident_memory_bytes", ()] > 10 << 20
    assert 3 < found["process_open_fds", ()] < found["process_max_fds", ()]


def test_metrics_need_a_right(api: Any) -> None:
    assert api.get("/metrics", token=None).status == 401
    assert api.get("/metrics", token="wrong").status == 401


def test_a_local_scraper_needs_no_token_if_the_settings_allow_it(
    settings: Settings, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    host = start_host(replace(settings, data=tmp_path, database="", metrics_open=True))
    client = client_of(host.port, host.token)
    assert client.get("/metrics", token=None).status == 200
    assert client.get("/metrics", token="wrong").status == 401  # who shows a token is judged by it
    assert client.get("/metrics", token=None, x_forwarded_for="192.0.2.7").status == 401  # a proxy speaks for others
    assert client.get("/api/v1/runs", token=None).status == 401  # and nothing else is open


def test_open_metrics_are_open_to_loopback_only() -> None:
    class Nobody:
        def authenticate(self, connection: Any) -> str:
            return "refused"

    opened = OpenMetrics(Nobody())  # type: ignore[arg-type]

    class Connection:
        def __init__(self, host: str | None, path: str = "/metrics", **headers: str) -> None:
            self.scope, self.headers = {"path": path}, headers
            self.client = None if host is None else type("Client", (), {"host": host})

    def name(*args: Any, **headers: str) -> Any:
        found = opened.authenticate(Connection(*args, **headers))  # type: ignore[arg-type]
        return found if isinstance(found, str) else found.name

    assert name("127.0.0.1") == name("::1") == "scraper"
    assert name("192.0.2.7") == name(None) == name("unix") == "refused"
    assert name("127.0.0.1", "/metrics/") == name("127.0.0.1", "/api/v1/runs") == "refused"
    assert name("127.0.0.1", authorization="Bearer x") == "refused"
