"""Reads answers with models that datamodel-code-generator generated: python_models.py URL TOKEN"""

import json
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import bollard_models

url, token = sys.argv[1:]


def get(path: str) -> object:
    with urlopen(Request(f"{url}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})) as response:
        return json.load(response)


agent = bollard_models.Agent.model_validate(get("agents/demo"))
assert agent.agent_id == "demo"
assert agent.policy.concurrency.mode.value == "queue"
try:
    answer = get("runs/run_missing")
except HTTPError as error:
    answer = json.load(error)
assert bollard_models.Error.model_validate(answer).error.code == "not_found"
print("the generated Python models work")
