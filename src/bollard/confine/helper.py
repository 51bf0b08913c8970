"""The confinement of our own helper processes, which they apply to themselves before they read anything that others
wrote. The code that they load by then is ours."""

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import bollard
from bollard.confine.kernel import clear_capabilities
from bollard.confine.landlock import landlock_version, restrict
from bollard.confine.order import DEVICES, system_places
from bollard.confine.seccomp import Sockets, install, launch_filter

_CERTIFICATES: Final = ("/etc/ca-certificates", "/etc/pki", "/etc/ssl")
_NAMED: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def confine_helper(
    *,
    readable: Iterable[str] = (),
    writable: Iterable[str] = (),
    sockets: Sockets = "none",
    ports: Iterable[int] | None = (),
    listens: Sequence[int] = (),
) -> None:
    """Restrict this process for good, before it starts a thread: it reads our code and `readable`, writes in
    `writable`, and connects to TCP `ports`, or to any if they are `None`. Without Landlock only the filter of system
    calls holds. Raises `OSError`."""
    with contextlib.suppress(OSError):
        clear_capabilities()
    if landlock_version():
        code = (sys.prefix, str(Path(bollard.__file__).resolve().parents[1]))
        certificates = (*_CERTIFICATES, *(os.environ[name] for name in _NAMED if os.environ.get(name)))
        restrict(
            readable=(*system_places(), *code, *certificates, *readable),
            writable=writable,
            devices=DEVICES,
            ports=ports or (),
            listens=listens,
            network=ports is None,
        )
    install(launch_filter(namespaces=False, sockets=sockets, may_leave_session=False, may_listen=bool(listens)))
