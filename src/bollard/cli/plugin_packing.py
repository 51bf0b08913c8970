"""Makes one archive of whatever a person calls a plugin: a folder, a Python file, a zip or a wheel. Runs none of it."""

import io
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bollard.cli.errors import UsageProblem
from bollard.host.errors import HostError
from bollard.host.plugins.description import Description
from bollard.host.plugins.shelf import Shelf
from bollard.wire.plugin_files import plugin_files

__all__ = ["ARCHIVE", "Packed", "pack_plugin"]

ARCHIVE: Final = "application/zip"
_ARCHIVES: Final = frozenset({".zip", ".whl"})
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that equal plugins are equal archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A plugin, ready to be sent."""

    described: Description
    digest: str
    data: bytes
    source: str


def pack_plugin(path: Path) -> Packed:
    """Pack what is there, and look at it as the host will. Raises `UsageProblem`."""
    if not path.exists():
        raise UsageProblem("error.no_path", "hint.plugin_source", path=path)
    try:
        data = _zipped(path) if path.is_dir() or path.suffix not in _ARCHIVES else path.read_bytes()
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place, "plugins"))
            shelf.open()
            shelved = shelf.take_archive(io.BytesIO(data))
            shelf.sweep(set())
    except HostError as error:
        raise UsageProblem("error.pack", "hint.host", path=path, detail=error.message, advice=error.hint) from error
    except OSError as error:
        raise UsageProblem("error.plugin_read", "hint.plugin_source", path=path, detail=error.strerror) from error
    return Packed(described=shelved.described, digest=shelved.digest, data=data, source=path.resolve().name)


def _zipped(path: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, file in sorted(plugin_files(path)):
            if file.is_symlink():
                raise UsageProblem("error.plugin_link", "hint.plugin_link", path=name)
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return out.getvalue()
