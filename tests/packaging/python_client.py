"""Uses a client that openapi-python-client generated: python_client.py URL TOKEN"""

import sys

from bollard_client import AuthenticatedClient
from bollard_client.api.agents import get_agent, list_agents
from bollard_client.api.bindings import get_binding, save_binding
from bollard_client.api.runs import create_run, get_run
from bollard_client.models import Accepted, Agent, AgentInput, Binding, CreateRun, Error, Filter, SaveBinding, Scope

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)

assert "demo" in [agent.agent_id for agent in list_agents.sync(client=client).items]
agent = get_agent.sync("demo", client=client)
assert isinstance(agent, Agent)
assert agent.policy.concurrency.mode == "queue"

body = SaveBinding(
    binding_id="builds",
    agent_id="demo",
    scope=Scope(channel="ci"),
    filters=[Filter(field="event_type", values=["build.failed"])],
)
saved = save_binding.sync("builds", client=client, body=body, if_none_match="*")
assert isinstance(saved, Binding), saved
assert get_binding.sync("builds", client=client) == saved
again = save_binding.sync("builds", client=client, body=body, if_none_match="*")
assert isinstance(again, Error)
assert again.error.code == "precondition_failed"

accepted = create_run.sync(client=client, body=CreateRun(agent="demo", input_=AgentInput(text="count 3")))
assert isinstance(accepted, Accepted), accepted
assert get_run.sync(accepted.run_id, client=client).agent_id == "demo"
missing = get_run.sync("run_missing", client=client)
assert isinstance(missing, Error)
assert (missing.error.code, missing.error.retryable) == ("not_found", False)
print("the generated Python client works")
