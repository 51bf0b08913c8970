"""Words that a real model sampled, through everything: its process, the host, a worker, and the reader of the run."""

from tests.local_agent.host_kit import AgentHost
from tests.local_agent.model_kit import KEY, local_model


def test_sampled_text_passes_through_the_whole_host(any_host: AgentHost) -> None:
    with local_model() as base_url:
        saved = any_host.client.put("/api/v1/secrets/local-model", {"value": KEY})
        assert saved.status in (200, 201), saved.body
        any_host.save_model("real", base_url=base_url, model="smollm2", secret="local-model")
        only = {"primary": "real", "fallbacks": []}
        any_host.save_agent("sampled", model=only, max_tokens=16, temperature=0, prompt="You are friendly.")
        told = any_host.run("sampled", "Say hello.")
    assert told.status == "completed", told.end
    assert told.text.strip()
    assert "".join(told.deltas) == told.text
    assert len(told.deltas) > 2
    (message,) = told.messages
    assert 0 < message["usage"]["completion_tokens"] <= 16
    (called,) = told.of("model.called")
    assert (called["status"], called["model"], called["estimated"]) == ("completed", "smollm2", False)
