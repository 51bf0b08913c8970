"""Common generators make clients of the API from its description, without a warning, and the clients work."""

import re
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import RunningHost
from tests.environments import Environment, clean_variables, run

pytestmark = pytest.mark.full

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def generators(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(repository, tmp_path_factory.mktemp("generators"))
    made.install("-r", HERE / "requirements.txt")
    return made


@pytest.fixture(scope="module")
def description(repository: Path) -> Path:
    return repository / "docs/reference/openapi.json"


def _use(generators: Environment, script: str, folder: Path, host: RunningHost) -> str:
    shutil.copy(HERE / script, folder)
    return run(generators.python, folder / script, host.url, host.token, cwd=folder)


def test_a_python_client_is_generated_and_works(
    generators: Environment, description: Path, client_host: RunningHost, tmp_path: Path
) -> None:
    tools = generators.site / "bin"
    page = description.with_name("http.md").read_text(encoding="utf-8")
    (tmp_path / "client.yaml").write_text(re.search(r"```yaml\n(# client\.yaml\n.*?)```", page, re.DOTALL)[1])
    said = run(
        tools / "openapi-python-client",
        *("generate", "--path", description, "--config", tmp_path / "client.yaml"),
        *("--meta", "none", "--output-path", tmp_path / "bollard_client"),
        cwd=tmp_path,
        PATH=f"{tools}:{clean_variables()['PATH']}",
    )
    assert "WARNING" not in said
    assert "Unable" not in said
    models = [path.stem for path in (tmp_path / "bollard_client/models").iterdir()]
    of_errors = [name for name in models if re.search(r"_response_[45]\d\d", name) and "_over_mcp_" not in name]
    assert "error" in models
    assert of_errors == [], "all errors have one class; those of MCP are JSON-RPC"
    assert "works" in _use(generators, "python_client.py", tmp_path, client_host)


def test_python_models_are_generated_and_work(
    generators: Environment, description: Path, client_host: RunningHost, tmp_path: Path
) -> None:
    run(
        generators.site / "bin" / "datamodel-codegen",
        *("--input", description, "--input-file-type", "openapi", "--output", tmp_path / "bollard_models.py"),
        *("--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin"),
        cwd=tmp_path,
    )
    assert "work" in _use(generators, "python_models.py", tmp_path, client_host)


def test_a_typescript_client_is_generated_and_works(
    description: Path, client_host: RunningHost, tmp_path: Path
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path / "typescript"
    shutil.copytree(HERE / "typescript", folder)
    run("npm", "ci", "--no-audit", "--no-fund", cwd=folder)
    run("npx", "openapi-ts", "-i", description, "-o", "client", "-c", "@hey-api/client-fetch", cwd=folder)
    run("npx", "tsc", cwd=folder)
    assert "works" in run("node", "built/smoke.js", client_host.url, client_host.token, cwd=folder)
