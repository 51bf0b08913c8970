"""The files of `bollard plugin new`, and the files that it does not overwrite."""

import pytest

pytestmark = pytest.mark.full


FILES = ["hello/README.md", "hello/manifest.yaml", "hello/runner.py", "hello/tests/test_runner.py"]


@pytest.mark.smoke
def test_a_new_plugin_folder_is_checked_tested_and_answers(bollard) -> None:
    made = bollard("plugin", "new", "hello")
    checked = bollard("plugin", "check", "hello", "--strict")
    tested = bollard("plugin", "test", "hello")
    answered = bollard("plugin", "run", "hello", stdin="hi\n")

    assert made.json == {"path": "hello", "files": FILES}
    assert checked.json["findings"] == []
    assert tested.json == {"path": "hello", "passed": True, "pytest_exit_code": 0}
    assert [line["type"] for line in answered.lines] == ["message.delta", "message.delta", "run.completed", "run.ended"]
    assert [done.code for done in (made, checked, tested, answered)] == [0, 0, 0, 0]


def test_a_new_single_file_is_checked_and_answers(bollard, tmp_path) -> None:
    made = bollard("plugin", "new", "my-runner.2", "--single-file")
    checked = bollard("plugin", "check", "my_runner_2.py", "--strict")
    tested = bollard("plugin", "test", "my_runner_2.py")
    answered = bollard("plugin", "run", "my_runner_2.py", "--text", stdin="hi\n")

    assert made.json == {"path": "my_runner_2.py", "files": ["my_runner_2.py"]}
    assert checked.json["findings"] == []
    assert tested.json["passed"] is True
    assert answered.out == "You said: hi\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["my_runner_2.py"]


@pytest.mark.parametrize("name", ["7", "a.b", "x-y_z", "a" * 64])
def test_every_allowed_name_makes_a_valid_plugin(bollard, name: str) -> None:
    assert bollard("plugin", "new", name, "--author", "some.one").code == 0
    checked = bollard("plugin", "check", name, "--strict")
    assert checked.json["plugin"] == f"some.one/{name} 0.1.0"
    assert checked.code == 0


def test_check_test_and_run_leave_no_files(bollard, tmp_path) -> None:
    bollard("plugin", "new", "hello")
    for command in ("check", "test", "run"):
        bollard("plugin", command, "hello", stdin="hi\n")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == FILES


@pytest.mark.parametrize("more", [(), ("--single-file",)])
def test_no_file_is_overwritten(bollard, tmp_path, more: tuple[str, ...]) -> None:
    taken = tmp_path / ("hello.py" if more else "hello")
    taken.write_text("mine")
    done = bollard("plugin", "new", "hello", *more)

    assert done.code == 2
    assert "is not overwritten" in done.err
    assert taken.read_text() == "mine"


def test_an_existing_folder_is_not_changed(bollard, tmp_path) -> None:
    (tmp_path / "hello").mkdir()
    assert bollard("plugin", "new", "hello").code == 2
    assert list((tmp_path / "hello").iterdir()) == []


def test_a_broken_link_is_not_followed(bollard, tmp_path) -> None:
    (tmp_path / "hello.py").symlink_to(tmp_path / "elsewhere.py")
    assert bollard("plugin", "new", "hello", "--single-file").code == 2
    assert not (tmp_path / "elsewhere.py").exists()


def test_the_plugin_is_created_in_the_given_folder(bollard, tmp_path) -> None:
    (tmp_path / "plugins").mkdir()
    assert bollard("plugin", "new", "hello", "--dir", "plugins").json["path"] == "plugins/hello"
    assert (tmp_path / "plugins/hello/manifest.yaml").is_file()


@pytest.mark.parametrize(("language", "made"), [("en_US", "Created hello:"), ("zh_Hans", "已创建 hello：")])
def test_the_output_names_the_next_commands(bollard, language: str, made: str) -> None:
    out = bollard("plugin", "new", "hello", "--text", "--lang", language).out
    assert out.startswith(made)
    assert "bollard plugin run hello" in out.splitlines()[-1]
