"""The `bollard` command. It may import anything and nobody imports it; commands import what they need when they run."""
