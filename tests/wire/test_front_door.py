"""The public names of the package, and the modules that importing it does not load."""

import subprocess
import sys

import bollard.wire
from bollard.wire import errors


def test_the_exports_are_a_sorted_list_of_existing_names() -> None:
    assert bollard.wire.__all__ == sorted(bollard.wire.__all__)
    assert len(set(bollard.wire.__all__)) == len(bollard.wire.__all__)
    for name in bollard.wire.__all__:
        assert hasattr(bollard.wire, name)


def test_every_import_of_the_package_is_exported() -> None:
    modules = set(sys.modules)
    offered = {
        name
        for name, value in vars(bollard.wire).items()
        if not name.startswith("_") and f"bollard.wire.{name}" not in modules and value is not bollard
    }
    assert offered == set(bollard.wire.__all__)


def test_every_error_of_the_tree_is_exported() -> None:
    tree = [errors.WireError, *errors.WireError.__subclasses__()]
    assert {error.__name__ for error in tree} <= set(bollard.wire.__all__)


def test_the_wire_does_not_import_websockets() -> None:
    program = "import sys, bollard.wire; sys.exit('websockets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_wire_imports_neither_the_sdk_nor_the_runtime() -> None:
    program = (
        "import sys, bollard.wire, bollard.wire.websocket;"
        "sys.exit(any(name.startswith(('bollard.sdk', 'bollard.runtime', 'bollard.cli')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
