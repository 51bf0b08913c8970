"""`manifest.yaml` of a plugin: bounded plain YAML, validated entry by entry. Runs no plugin code.

The host, the worker and the offline harness read it here, so that they agree on it.
"""

from bollard.manifest.reading import ManifestReading, PluginLoadError, Problem, admits_python, read_manifest
from bollard.manifest.text import MANIFEST_NAME

__all__ = ["MANIFEST_NAME", "ManifestReading", "PluginLoadError", "Problem", "admits_python", "read_manifest"]
