"""Shared fixtures of the local agent's tests."""

from tests.local_agent.host_kit import agent_host, any_host, postgres_host, sqlite_host
from tests.local_agent.provider_kit import provider, provider_process
from tests.local_agent.tokenizer_kit import real

__all__ = ["agent_host", "any_host", "postgres_host", "provider", "provider_process", "real", "sqlite_host"]
