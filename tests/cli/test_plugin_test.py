"""`bollard plugin test`: pytest on a plugin's own tests."""

import subprocess
import sys

import pytest

from bollard.cli.errors import UsageProblem

pytestmark = pytest.mark.full


WITHOUT_PYTEST = """
import os, sys
sys.modules["pytest"] = None
from bollard.cli.app import run
sys.exit(run(["plugin", "test", "."], os.environ))
"""


@pytest.mark.smoke
def test_a_failing_test_fails_the_command_and_is_shown(bollard, write) -> None:
    write("p/tests/test_it.py", "def test_it():\n    assert 1 == 2\n")
    done = bollard("plugin", "test", "p")
    assert (done.code, done.json) == (1, {"path": "p", "passed": False, "pytest_exit_code": 1})
    assert "assert 1 == 2" in done.err


def test_in_text_mode_pytest_writes_to_stdout(bollard, write) -> None:
    write("p/tests/test_it.py", "def test_it():\n    pass\n")
    done = bollard("plugin", "test", "p", "--text")
    assert "1 passed" in done.out
    assert done.code == 0


def test_arguments_are_passed_to_pytest(bollard, write) -> None:
    write("p/tests/test_it.py", "def test_one():\n    pass\n\ndef test_two():\n    assert False\n")
    assert bollard("plugin", "test", "p", "-k", "one").code == 0
    assert "1 deselected" in bollard("plugin", "test", "p", "--text", "--", "-k", "one").out


def test_the_plugins_folder_is_on_the_path(bollard, write) -> None:
    write("p/runner.py", "ANSWER = 42\n")
    write("p/tests/test_it.py", "import runner\n\ndef test_it():\n    assert runner.ANSWER == 42\n")
    assert bollard("plugin", "test", "p").code == 0


def test_a_single_file_may_have_its_tests_beside_it(bollard, write) -> None:
    write("one.py", "ANSWER = 42\n")
    write("test_one.py", "import one\n\ndef test_it():\n    assert one.ANSWER == 42\n")
    assert bollard("plugin", "test", "one.py").code == 0


def test_no_tests_is_a_clear_error(bollard, write) -> None:
    write("empty/runner.py", "")
    write("hollow/tests/test_it.py", "")
    write("one.py", "ANSWER = 42\n")
    for path in ("empty", "hollow", "one.py"):
        done = bollard("plugin", "test", path)
        assert done.code == 1
        assert f"bollard: {path} has no tests\n" in done.err


def test_without_pytest_the_hint_names_the_installation() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], capture_output=True, text=True, env={}, check=False)
    assert done.returncode == UsageProblem.exit_code
    assert done.stderr == "bollard: pytest is not installed\nhint: install it: `make setup`\n"
