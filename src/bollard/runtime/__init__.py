"""The worker process: loads one plugin and serves it to a host. Started with `python -m bollard.runtime PLUGIN`."""

from bollard.runtime.manifest_file import digest_of, read_manifest
from bollard.runtime.plugin_loader import LoadedPlugin, load_plugin
from bollard.runtime.problems import RULES, PluginLoadError, Problem

__all__ = ["RULES", "LoadedPlugin", "PluginLoadError", "Problem", "digest_of", "load_plugin", "read_manifest"]
