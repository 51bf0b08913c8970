"""Settings: where they come from, and what is refused before anything starts."""

from pathlib import Path

import pytest

from bollard.host.errors import SettingsError
from bollard.host.settings import Settings, read_settings


def test_without_any_configuration_the_defaults_hold(tmp_path):
    assert read_settings({}, tmp_path, {}) == Settings()


def test_the_command_line_stands_over_the_environment_and_that_over_the_file(tmp_path):
    (tmp_path / "bollard.toml").write_text('port = 1001\nworkers = 2\ndata = "from-file"\n')
    settings = read_settings({"BOLLARD_PORT": "1002", "BOLLARD_WORKERS": "3"}, tmp_path, {"port": 1003, "data": None})
    assert (settings.port, settings.workers, settings.data) == (1003, 3, Path("from-file"))


def test_a_variable_that_is_no_setting_is_somebody_elses(tmp_path):
    assert read_settings({"BOLLARD_LANG": "zh_Hans", "PORT": "1"}, tmp_path, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("prot = 1\n", "prot"),
        ('port = "many"\n', "port"),
        ("port = 70000\n", "port"),
        ("workers = 0\n", "workers"),
        ("runs_at_once = 0\n", "runs_at_once"),
        ('host = "0.0.0.0"\n', "host"),
        ("[retention]\n'tool.call.completed' = -1\n", "retention"),
        ("[retention]\n'tool.call.completed' = 'long'\n", "retention"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name_with_a_hint(tmp_path, text, field):
    (tmp_path / "bollard.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        read_settings({}, tmp_path, {})
    assert refused.value.details["field"] == field
    assert refused.value.hint


def test_a_file_that_is_no_toml_is_refused_by_name(tmp_path):
    (tmp_path / "bollard.toml").write_text("port = = 1\n")
    with pytest.raises(SettingsError, match=r"bollard\.toml"):
        read_settings({}, tmp_path, {})


def test_retention_is_a_table_by_kind_in_the_file_and_a_list_in_the_environment(tmp_path):
    (tmp_path / "bollard.toml").write_text("[retention]\n'message.delta' = 7\n'tool.call.completed' = 30.5\n")
    expected = (("message.delta", 7.0), ("tool.call.completed", 30.5))
    assert read_settings({}, tmp_path, {}).retention == expected
    given = {"BOLLARD_RETENTION": "message.delta=7, tool.call.completed=30.5"}
    assert read_settings(given, tmp_path / "elsewhere", {}).retention == expected


def test_plugins_are_a_list_in_the_file_and_separated_by_colons_in_the_environment(tmp_path):
    (tmp_path / "bollard.toml").write_text('plugins = ["a", "b.py"]\n')
    assert read_settings({}, tmp_path, {}).plugins == (Path("a"), Path("b.py"))
    assert read_settings({"BOLLARD_PLUGINS": "c:d.py"}, tmp_path, {}).plugins == (Path("c"), Path("d.py"))
