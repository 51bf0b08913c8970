"""Checks the declarations of a plugin: labels, descriptions, and defaults of forms."""

import json
from collections.abc import Sequence
from typing import Any

from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.plugins.findings import Finding
from bollard.cli.terminal.columns import shorten
from bollard.host.agents.config_form import problem_of
from bollard.protocol import DISPLAY_PLACEHOLDERS, NOTHING_SELECTED, AgentRunnerManifest, FormItem, PluginMetadata
from bollard.protocol.form import unknown_placeholders


def check_labels(metadata: PluginMetadata | None, runners: Sequence[AgentRunnerManifest], text: Text) -> list[Finding]:
    """Labels without a Chinese text."""
    labels: list[tuple[str, str, dict[str, str]]] = []
    if metadata is not None:
        labels.append(("manifest.yaml", "metadata.label", metadata.label))
    for runner in runners:
        labels.append((runner.name, "label", runner.label))
        labels += [(runner.name, f"config_schema.{item.name}.label", item.label) for item in runner.config_schema]
        labels += [row for item in runner.config_schema for row in _options(runner.name, item)]
        labels += [
            (runner.name, f"config_schema.{item.name}.locked", item.locked)
            for item in runner.config_schema
            if item.locked is not None
        ]
    return [
        Finding(rule="PC03", where=where, field=field, problem=text("PC03.problem"), hint=text("fix.PC03"))
        for where, field, label in labels
        if not label.get("zh_Hans", "").strip()
    ]


def _options(where: str, item: FormItem) -> list[tuple[str, str, dict[str, str]]]:
    # A plain value (gpt-4, 10) is the same in every language.
    return [
        (where, f"config_schema.{item.name}.options.{option.value}", option.label)
        for option in item.options or ()
        if option.label is not None and option.label.get("en_US") != str(option.value)
    ]


def check_descriptions(
    metadata: PluginMetadata | None, runners: Sequence[AgentRunnerManifest], text: Text
) -> list[Finding]:
    """A plugin or runners without a description."""
    described: list[tuple[str, str, Any]] = []
    if metadata is not None:
        described.append(("manifest.yaml", "metadata.description", metadata.description))
    described += [(runner.name, "description", runner.description) for runner in runners]
    return [
        Finding(rule="PC06", where=where, field=field, problem=text("PC06.problem"), hint=text("fix.PC06"))
        for where, field, description in described
        if not description
    ]


def check_defaults(
    runners: Sequence[AgentRunnerManifest], refused: Sequence[dict[str, str]], text: Text
) -> list[Finding]:
    """Defaults of a form that do not fit their field, or that the configuration model refuses: each run would fail."""
    problems: dict[tuple[str, str], str] = {}
    hints: dict[tuple[str, str], str] = {}
    for runner in runners:
        for item in runner.config_schema:
            if item.type == "tool-multi-selector" and (unknown := _unknown_tool(item)):
                problems[runner.name, item.name] = text("PC10.tool", name=unknown)
                hints[runner.name, item.name] = text("PC10.tool_hint")
            if placeholders := unknown_placeholders(item):
                known = ", ".join(f"{{{name}}}" for name in DISPLAY_PLACEHOLDERS)
                problems[runner.name, item.name] = text("PC10.placeholder", name=placeholders[0], known=known)
                hints[runner.name, item.name] = text("PC10.placeholder_hint")
            if item.default is None or item.type == "display" or problem_of(item, item.default) is None:
                continue
            options = ", ".join(json.dumps(option.value, ensure_ascii=False) for option in item.options or ())
            key = "PC10.options" if item.type in ("select", "multi-select") else "PC10.problem"
            problems[runner.name, item.name] = text(key, value=_shown(item), type=item.type, options=options)
    items = {(runner.name, item.name): item for runner in runners for item in runner.config_schema}
    for each in refused:
        at = (each["runner"], each["field"])
        if at in items:
            detail = shorten(text.problem(each), LINE_CHARACTERS)
            problems.setdefault(at, text("PC10.model", value=_shown(items[at]), detail=detail))
    return [
        Finding(
            rule="PC10",
            where=at[0],
            field=f"config_schema.{at[1]}",
            problem=problem,
            hint=hints.get(at) or text("fix.PC10"),
        )
        for at, problem in problems.items()
    ]


def _unknown_tool(item: FormItem) -> str | None:
    """A short name that the loader did not find among the plugin's own tools. Other tools have ids with a colon."""
    chosen = item.default if isinstance(item.default, list) else ()
    return next(
        (each for each in chosen if isinstance(each, str) and each not in NOTHING_SELECTED and ":" not in each), None
    )


def _shown(item: FormItem) -> str:
    """The default as JSON. A secret is not printed."""
    return "…" if item.type == "secret" else shorten(json.dumps(item.default, ensure_ascii=False), LINE_CHARACTERS)
