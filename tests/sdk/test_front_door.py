"""The SDK's front door is a list, and a light one."""

import subprocess
import sys

import bollard.sdk
import bollard.sdk.agent
import bollard.sdk.testing


def test_every_listed_name_exists_and_the_lists_are_sorted():
    for package in (bollard.sdk, bollard.sdk.agent, bollard.sdk.testing):
        for name in package.__all__:
            assert hasattr(package, name)
        kinds = [(not name.isupper(), not name[0].isupper(), name) for name in package.__all__]
        assert kinds == sorted(set(kinds))


def test_importing_the_sdk_loads_neither_the_test_host_nor_the_wire():
    probe = (
        "import sys, bollard.sdk; "
        "print(*[name for name in ('bollard.sdk.testing', 'bollard.wire', 'yaml', 'msgspec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
