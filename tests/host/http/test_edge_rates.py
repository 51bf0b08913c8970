"""Rate and concurrency limits of a whole host: errors with `Retry-After`, and other callers are not affected."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.limits import STRANGER_REQUESTS_PER_MINUTE
from bollard.host.settings import Settings


@pytest.fixture
def begin(start_host: Any, client_of: Any, tmp_path: Path, plugin: Path) -> Callable[..., Any]:
    """A host with its own settings, and its client."""

    def start(**more: Any) -> Any:
        host = start_host(
            Settings(data=tmp_path, plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5, **more)
        )
        return client_of(host.port, host.token)

    return start


def test_a_key_above_its_rate_gets_a_retry_time(begin: Callable[..., Any]) -> None:
    api = begin(requests_per_minute=120)
    made = api.post("/api/v1/keys", {"name": "greedy", "rights": ["runs.read"]})
    assert made.status == 201, made.body
    answers = [api.get("/api/v1/runs", token=made.json["token"]) for _ in range(30)]
    assert {answer.status for answer in answers[:20]} == {200}  # a sixth of a minute's may come at once
    refused = next(answer for answer in answers if answer.status != 200)
    assert refused.status == 429
    assert (refused.error["code"], refused.error["retryable"]) == ("rate_limited", True)
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["ratelimit-policy"] == '"identity";q=120;w=60'
    assert refused.headers["ratelimit"].startswith('"identity";r=0;t=')
    assert api.get("/api/v1/runs").status == 200  # the admin token has a bucket of its own


def test_token_guesses_are_slowed_down_and_valid_tokens_are_not(begin: Callable[..., Any]) -> None:
    api = begin()
    statuses = [
        api.get("/api/v1/runs", token=f"bollard_{number}").status for number in range(STRANGER_REQUESTS_PER_MINUTE)
    ]
    assert set(statuses[: STRANGER_REQUESTS_PER_MINUTE // 2]) == {401}
    assert set(statuses) == {401, 429}
    assert api.get("/api/v1/runs").status == 200


def test_a_channel_and_its_forgers_have_separate_rates(begin: Callable[..., Any]) -> None:
    api = begin(requests_per_minute=60)
    secret = api.put("/api/v1/channels/room", {}).json["secret"]

    def post(key: bytes, number: int) -> int:
        body, path = f'{{"text": "{number}"}}'.encode(), "/api/v1/channels/room/events"
        signed = {
            name.replace("-", "_"): value for name, value in sign(key, f"m{number}", int(time.time()), body).items()
        }
        return api.post(path, body, token=None, **signed).status

    statuses = [post(secret_bytes(secret), number) for number in range(40)]
    assert set(statuses[:10]) == {202}  # a sixth of a minute's may come at once
    assert set(statuses) == {202, 429}
    forged = [post(b"x" * 32, number) for number in range(STRANGER_REQUESTS_PER_MINUTE)]
    assert set(forged[: STRANGER_REQUESTS_PER_MINUTE // 2]) == {401}
    assert set(forged) == {401, 429}
    assert api.get("/api/v1/channels/room").status == 200


def test_one_identity_has_a_limit_of_open_streams(begin: Callable[..., Any]) -> None:
    api = begin(requests_at_once=3)
    api.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    run_id = api.say("wait")
    streams = [api.stream(run_id) for _ in range(3)]
    for stream in streams:
        stream.until("message.delta")
    refused = api.get("/api/v1/runs")
    assert (refused.status, refused.error["code"]) == (429, "rate_limited")
    assert api.get("/healthz").status == 200
    streams[0].close()
    give_up_at = time.monotonic() + 10
    while api.get("/api/v1/runs").status != 200:
        assert time.monotonic() < give_up_at
    for stream in streams[1:]:
        stream.close()
