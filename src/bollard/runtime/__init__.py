"""The worker process: loads one plugin and serves it to a host. Started with `python -m bollard.runtime PLUGIN`."""

from bollard.runtime.manifest_file import ManifestReading, digest_of, read_manifest
from bollard.runtime.plugin_loader import LoadedPlugin, LoadedRunner, LoadedTool, load_plugin
from bollard.runtime.problems import RULES, PluginLoadError, Problem
from bollard.runtime.worker import Worker

__all__ = [
    "RULES",
    "LoadedPlugin",
    "LoadedRunner",
    "LoadedTool",
    "ManifestReading",
    "PluginLoadError",
    "Problem",
    "Worker",
    "digest_of",
    "load_plugin",
    "read_manifest",
]
