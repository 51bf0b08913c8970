"""The Chinese catalogue of the command line."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.cli.text.zh_Hans.agents import APPROVALS, CAPABILITIES, FILES, KNOWLEDGE, MODELS, SKILLS
from bollard.cli.text.zh_Hans.commands import COMMANDS
from bollard.cli.text.zh_Hans.errors import ERRORS
from bollard.cli.text.zh_Hans.help import HELP
from bollard.cli.text.zh_Hans.host import ADVICE, CODES, HOST
from bollard.cli.text.zh_Hans.identity import IDENTITY, SECRETS
from bollard.cli.text.zh_Hans.mcp import MCP
from bollard.cli.text.zh_Hans.operate import AUDIT, OPERATING, UPKEEP
from bollard.cli.text.zh_Hans.plugins import PLUGINS, RULES, RUNTIMES
from bollard.cli.text.zh_Hans.reasons import REASONS
from bollard.cli.text.zh_Hans.runs import READING, STATE

__all__ = ["ADVICE", "CODES", "HOST", "REASONS", "TEXT"]

TEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        **HELP,
        **ERRORS,
        **COMMANDS,
        **APPROVALS,
        **AUDIT,
        **CAPABILITIES,
        **FILES,
        **IDENTITY,
        **KNOWLEDGE,
        **MCP,
        **MODELS,
        **OPERATING,
        **PLUGINS,
        **READING,
        **RULES,
        **RUNTIMES,
        **SECRETS,
        **SKILLS,
        **STATE,
        **UPKEEP,
    }
)
