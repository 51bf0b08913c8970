"""What the tests of the local agent share. The plugin's folder is on the path, as in its worker."""

import sys
from pathlib import Path

from tests.local_agent.host_kit import agent_host, any_host, postgres_host, sqlite_host
from tests.local_agent.provider_kit import provider, provider_process
from tests.local_agent.tokenizer_kit import real

__all__ = ["agent_host", "any_host", "postgres_host", "provider", "provider_process", "real", "sqlite_host"]

PLUGIN = Path(__file__).resolve().parents[2] / "plugins" / "local-agent"
if str(PLUGIN) not in sys.path:
    sys.path.append(str(PLUGIN))
