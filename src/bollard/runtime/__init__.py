"""The worker process: loads one plugin and serves it to a host. Started with `python -m bollard.runtime PLUGIN`."""

from bollard.manifest import ManifestReading, PluginLoadError, Problem, read_manifest
from bollard.runtime.plugin_folder import digest_of
from bollard.runtime.plugin_loader import LoadedPlugin, load_plugin
from bollard.runtime.problems import RULES

__all__ = [
    "RULES",
    "LoadedPlugin",
    "ManifestReading",
    "PluginLoadError",
    "Problem",
    "digest_of",
    "load_plugin",
    "read_manifest",
]
