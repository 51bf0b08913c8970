"""Packs a plugin into an archive. Runs no code of it."""

import io
import zipfile
from pathlib import Path
from typing import Final

from bollard.wire.plugin_files import PluginFileError, plugin_files

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that equal plugins give equal archives."""


def zip_of_plugin(path: Path) -> bytes:
    """The archive of a plugin's folder or file. Links are refused. Raises `PluginFileError`, `OSError`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, file in sorted(plugin_files(path)):
            if file.is_symlink():
                raise PluginFileError(name, "is a link")
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return out.getvalue()
