"""Settings: one frozen value from the command line, the environment, a file and defaults, refused with a hint."""

from pathlib import Path
from typing import Any

import pytest

from bollard.host.errors import SettingsError
from bollard.host.settings import Settings, read_settings


def test_the_first_start_needs_no_configuration(tmp_path: Path) -> None:
    settings = read_settings({}, tmp_path, {})
    assert settings == Settings()
    assert (settings.host, settings.database) == ("127.0.0.1", "")
    with pytest.raises(AttributeError):
        settings.port = 1  # type: ignore[misc]


def test_the_command_line_overrides_the_environment_and_the_environment_the_file(tmp_path: Path) -> None:
    (tmp_path / "bollard.toml").write_text('port = 1\nworkers = 2\ndata = "file"\n', encoding="utf-8")
    environment = {"BOLLARD_PORT": "3", "BOLLARD_WORKERS": "4", "HOME": "/", "BOLLARD_TOKEN": "not a setting"}
    settings = read_settings(environment, tmp_path, {"port": 5, "database": None})
    assert (settings.port, settings.workers, settings.data) == (5, 4, Path("file"))


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"port": "x"}, "port"),
        ({"port": 70000}, "port"),
        ({"port": -1}, "port"),
        ({"workers": 0}, "workers"),
        ({"workers": 65}, "workers"),
        ({"runs_at_once": 0}, "runs_at_once"),
        ({"host": "0.0.0.0"}, "host"),
        ({"host": "example.org"}, "host"),
        ({"prot": 1}, "prot"),
        ({"grace_s": "nan"}, "grace_s"),
        ({"grace_s": -1}, "grace_s"),
        ({"grace_s": "soon"}, "grace_s"),
        ({"log_level": "loud"}, "log_level"),
        ({"access_log": "maybe"}, "access_log"),
        ({"otel_endpoint": "127.0.0.1:4318"}, "otel_endpoint"),
        ({"otel_ratio": 1.5}, "otel_ratio"),
        ({"otel_ratio": "nan"}, "otel_ratio"),
        ({"artifact_days": -1}, "artifact_days"),
        ({"artifact_days": "nan"}, "artifact_days"),
        ({"artifact_days": 36500}, "artifact_days"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(tmp_path: Path, overrides: dict[str, Any], field: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_settings({}, tmp_path, overrides)
    assert refusal.value.details["field"] == field
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("[host]\nport = 1", "host"),
        ("data = 3", "data"),
        ('data = ""', "data"),
        ("database = true", "database"),
        ("port = true", "port"),
        ("workers = 1.9", "workers"),
        ("grace_s = true", "grace_s"),
    ],
)
def test_a_setting_of_another_type_is_refused_and_not_converted(tmp_path: Path, line: str, field: str) -> None:
    (tmp_path / "bollard.toml").write_text(line, encoding="utf-8")
    with pytest.raises(SettingsError) as refusal:
        read_settings({}, tmp_path, {})
    assert refusal.value.details["field"] == field
    assert refusal.value.message.startswith(f"{field} is ")


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe", b"port = 1\nport = 2"])
def test_an_unreadable_file_is_refused_with_a_hint(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bollard.toml").write_bytes(content)
    with pytest.raises(SettingsError) as refusal:
        read_settings({}, tmp_path, {})
    assert "bollard.toml" in refusal.value.message
    assert refusal.value.hint


def test_lists_and_switches_are_read_from_the_environment(tmp_path: Path) -> None:
    environment = {"BOLLARD_PLUGINS": "one:two", "BOLLARD_BUILTIN_PLUGINS": "no", "BOLLARD_GRACE_S": "0.5"}
    settings = read_settings(environment, tmp_path, {})
    assert settings.plugins == (Path("one"), Path("two"))
    assert (settings.builtin_plugins, settings.grace_s) == (False, 0.5)


def test_an_invalid_witness_is_refused(tmp_path: Path) -> None:
    url = "https://witness.example.org/heads"
    for values, said in (
        ({"witness": "http://"}, "is not a valid URL"),
        ({"witness": "https://ann:secret@w.example.org/"}, "is not a valid URL"),
        ({"witness": "https://w.example.org:99999/"}, "is not a valid URL"),
        ({"witness": str(tmp_path / "heads"), "witness_token": "t"}, "takes no token"),
        ({"witness_token": "t"}, "takes no token"),
        ({"witness": "http://w.example.org/", "witness_token": "t"}, "in plain text"),
        ({"witness_required": True}, "is in the data directory"),
        ({"witness_required": True, "witness": str(tmp_path / "data" / "heads")}, "is in the data directory"),
    ):
        with pytest.raises(SettingsError, match=said) as refusal:
            read_settings({}, tmp_path, {"data": str(tmp_path / "data"), **values})
        assert refusal.value.details["field"] == "witness"
    for values in (
        {"witness": url, "witness_token": "t", "witness_required": True},
        {"witness": "http://127.0.0.1:8500/", "witness_token": "t"},
        {"witness": str(tmp_path / "mount" / "heads"), "witness_required": True},
    ):
        assert read_settings({}, tmp_path, {"data": str(tmp_path / "data"), **values}).witness


def test_the_collector_endpoint_comes_from_the_setting_or_the_standard_variable(tmp_path: Path) -> None:
    usual = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    assert read_settings(usual, tmp_path, {}).otel_endpoint == "http://127.0.0.1:4318"
    (tmp_path / "bollard.toml").write_text('otel_endpoint = "http://127.0.0.1:1"\n', encoding="utf-8")
    assert read_settings(usual, tmp_path, {}).otel_endpoint == "http://127.0.0.1:1"
    both = {**usual, "BOLLARD_OTEL_ENDPOINT": "http://127.0.0.1:2"}
    assert read_settings(both, tmp_path, {}).otel_endpoint == "http://127.0.0.1:2"
    assert read_settings({}, Path("/nonexistent"), {}).otel_endpoint == ""
