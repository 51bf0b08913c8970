"""Runs a command under a seccomp profile as container runtimes do: `under_profile.py PROFILE COMMAND...`.

It uses libseccomp, and nothing but the standard library.
"""

import ctypes
import ctypes.util
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
COMPARISONS = {"SCMP_CMP_NE": 1, "SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
UNKNOWN = -1


class _Comparison(ctypes.Structure):
    _fields_ = (("index", ctypes.c_uint), ("op", ctypes.c_int), ("one", ctypes.c_uint64), ("other", ctypes.c_uint64))


def find_library() -> str | None:
    return ctypes.util.find_library("seccomp")


def apply_profile(profile: dict[str, Any]) -> None:
    """Restrict this process. Calls that this machine does not know are skipped, as runtimes do."""
    if ARCHITECTURES[platform.machine()] not in (each["architecture"] for each in profile["archMap"]):
        raise SystemExit(f"the profile is not for {platform.machine()}")
    library = ctypes.CDLL(find_library() or "libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(_action(profile["defaultAction"], profile["defaultErrnoRet"])))
    for rule in profile["syscalls"]:
        conditions = [
            _Comparison(each["index"], COMPARISONS[each["op"]], each["value"], each.get("valueTwo", 0))
            for each in rule.get("args", ())
        ]
        array = (_Comparison * max(1, len(conditions)))(*conditions)
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number == UNKNOWN:
                continue
            action = _action(rule["action"], rule.get("errnoRet", 1))
            problem = library.seccomp_rule_add_array(
                context, ctypes.c_uint32(action), number, len(conditions), ctypes.byref(array)
            )
            if problem:
                raise SystemExit(f"{name}: {os.strerror(-problem)}")
    if problem := library.seccomp_load(context):
        raise SystemExit(f"the profile cannot be loaded: {os.strerror(-problem)}")


def _action(name: str, error: int) -> int:
    return ALLOW if name == "SCMP_ACT_ALLOW" else ERRNO | error


def main() -> None:
    apply_profile(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
