"""The files under deploy/: they parse, all names exist, and systemd itself accepts the unit."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bollard.cli.limits import STOP_DEADLINE_S
from bollard.host.http.resources.health import Health
from bollard.host.settings import Settings, read_settings

SETTINGS = {f"BOLLARD_{name.upper()}" for name in Settings.__struct_fields__}
NOT_OF_THE_HOST = {"BOLLARD_ORIGIN", "BOLLARD_PROXY"}
"""The variables that compose.yaml requires."""
PROGRAM = "/usr/local/lib/bollard/bin/bollard"


class _Unit(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.fixture
def deploy(root: Path) -> Path:
    return root / "deploy"


@pytest.fixture
def unit(deploy: Path) -> _Unit:
    found = _Unit(strict=False)
    found.read_string((deploy / "bollard.service").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def compose(deploy: Path) -> Any:
    return yaml.safe_load((deploy / "compose.yaml").read_text(encoding="utf-8"))


def test_every_setting_named_by_a_file_exists(deploy: Path) -> None:
    for file in sorted(deploy.iterdir()):
        named = set(re.findall(r"\bBOLLARD_[A-Z_]+\b", file.read_text(encoding="utf-8")))
        unknown = named - SETTINGS - NOT_OF_THE_HOST - {"BOLLARD_NAME"}
        assert not unknown, f"{file.name}: {unknown}"


def test_the_unit_is_valid_for_systemd(deploy: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd here")
    text = (deploy / "bollard.service").read_text(encoding="utf-8")
    there = tmp_path / "bollard.service"
    there.write_text(text.replace(PROGRAM, str(Path(sys.executable).with_name("bollard"))), encoding="utf-8")
    done = subprocess.run(
        [program, "verify", "--man=no", str(there)], capture_output=True, text=True, check=False, timeout=120
    )
    # Other units of this machine are read too; only messages about ours count.
    said = [line for line in done.stderr.splitlines() if "bollard" in line]
    assert not said, said


def test_the_unit_waits_for_the_notification_and_longer_than_the_grace(unit: _Unit) -> None:
    service = dict(unit["Service"])
    assert service["Type"] == "notify"
    assert service["ExecStart"] == f"{PROGRAM} up"
    assert service["User"] not in ("root", "")
    environment = re.findall(r"^Environment=(\w+)=(.+)$", _text(unit), re.MULTILINE)
    settings = read_settings(dict(environment), Path("/nonexistent"), {})
    assert 2 * settings.grace_s + STOP_DEADLINE_S < float(service["TimeoutStopSec"])


def _text(unit: _Unit) -> str:
    """With every line of a repeated key, which a parser of INI files would lose."""
    del unit
    return (Path(__file__).parents[2] / "deploy/bollard.service").read_text(encoding="utf-8")


def test_the_unit_removes_unneeded_privileges(unit: _Unit) -> None:
    service = dict(unit["Service"])
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictSUIDSGID"):
        assert service[name] == "yes", name
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def _instructions(text: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_container_is_built_in_stages_and_runs_unprivileged(deploy: Path, root: Path) -> None:
    steps = _instructions((deploy / "Containerfile").read_text(encoding="utf-8"))
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {name for name, _ in steps} <= known | {"ENTRYPOINT", "CMD"}
    assert [name for name, _ in steps].count("FROM") == 2
    last = steps[max(index for index, (name, _) in enumerate(steps) if name == "FROM") :]
    assert ("USER", "bollard") in last
    assert ("STOPSIGNAL", "SIGTERM") in last
    copied = [what.split()[:-1] for name, what in steps if name == "COPY" and "--from" not in what]
    sources = {source for each in copied for source in each}
    assert all((root / source).exists() for source in sources), sources
    asked = next(what for name, what in last if name == "HEALTHCHECK")
    assert any(operation.path in asked and operation.open for operation in Health.operations())
    assert f":{Settings().port}/" in asked
    ignored = (deploy / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored, "what is not named does not get into the build: keys and data may lie about"
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert kept == sources


def _extras(file: Path) -> set[str]:
    (named,) = re.findall(r"'\.\[([\w,]+)\]'", file.read_text(encoding="utf-8"))
    return set(named.split(","))


def test_the_unit_and_the_container_install_the_same_extras(deploy: Path) -> None:
    assert _extras(deploy / "bollard.service") == _extras(deploy / "Containerfile")


def test_the_container_installs_extras_of_the_package(deploy: Path, root: Path) -> None:
    extras = _extras(deploy / "Containerfile")
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    table = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert extras <= set(re.findall(r"^(\w+) = ", table, re.MULTILINE))


def test_compose_has_a_host_and_postgresql_with_valid_settings(compose: Any, deploy: Path) -> None:
    services = compose["services"]
    assert set(services) == {"host", "postgres"}
    host = services["host"]
    assert (deploy / host["build"]["context"] / host["build"]["dockerfile"]).resolve() == deploy / "Containerfile"
    given = {
        "BOLLARD_ORIGIN": "https://bollard.example.org",
        "POSTGRES_PASSWORD": "p",
        "KNOWLEDGE_PASSWORD": "k",
        "BOLLARD_PROXY": "",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "",
    }

    def filled(text: str) -> str:
        return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}", lambda found: given[found[1]] or found[2] or "", text)

    environment = {name: filled(value) for name, value in host["environment"].items()}
    settings = read_settings(environment, Path("/nonexistent"), {})
    assert settings.host == "0.0.0.0"
    assert settings.origins == ("https://bollard.example.org",)
    assert settings.database == "postgresql://bollard:p@postgres/bollard"
    assert settings.knowledge_database == "postgresql://bollard_knowledge:k@postgres/bollard"
    assert settings.trusted_proxies
    assert host["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert host["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"]
    mounted = {volume.split(":")[0] for each in services.values() for volume in each["volumes"]}
    files = {each for each in mounted if each.startswith("./")}
    assert set(compose["volumes"]) == mounted - files
    assert all((deploy / each).is_file() for each in files), files


def test_compose_names_the_profile_beside_it(compose: Any, deploy: Path) -> None:
    options = compose["services"]["host"]["security_opt"]
    assert "no-new-privileges:true" in options
    (named,) = [option.partition("=")[2] for option in options if option.startswith("seccomp=")]
    assert (deploy / named).resolve() == deploy.resolve() / "seccomp.json"


def test_compose_requires_passwords_and_an_origin(deploy: Path) -> None:
    text = (deploy / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == {"BOLLARD_ORIGIN", "POSTGRES_PASSWORD", "KNOWLEDGE_PASSWORD"}
