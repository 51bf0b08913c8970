"""`bollard agents …`: lists, shows, saves, edits and deletes the agents of a host, and prints a draft of a new
one."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from bollard.cli.agents.document_edits import FORMATS, EditedFile, EditFormat, assigned, read_assignment, value_at
from bollard.cli.client.documents import AGENTS, RUNNERS
from bollard.cli.command import CommandGroup
from bollard.cli.errors import CliError, HostRefusal, UsageProblem
from bollard.cli.language import Text
from bollard.cli.options import one_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable, shorten

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


_VALUE_CHARACTERS: Final = 200
"""A value in a line about a change."""
AgentId = Annotated[str, typer.Argument(metavar="ID", help="agents.id")]


def _label(agent: dict[str, Any], text: Text) -> str:
    return _in_language(agent["label"], text)


def _in_language(words: Mapping[str, str], text: Text) -> str:
    return words.get(text.language) or words.get("en_US", "")


def _shown_label(agent: dict[str, Any], text: Text) -> str:
    label = _label(agent, text)
    if not agent["available"]:
        return text("agents.absent", label=label)
    return label if agent.get("enabled", True) else text("agents.off", label=label)


def agent_lines(agent: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of an agent, one line for each part of its policy."""
    policy: dict[str, Any] = agent["policy"]
    yield text("agents.head", agent=agent["agent_id"], label=printable(_label(agent, text)), runner=agent["runner_id"])
    yield text("agents.revision", revision=agent["revision"])
    yield text("agents.enabled", answer=text.yes_or_no(agent["enabled"]))
    yield text("agents.access", what=_listed(policy["access"]["permissions"], text))
    state: dict[str, Any] = policy["state"]
    yield text("agents.state", what=", ".join(state["scopes"]) if state["enabled"] else text("rights.none"))
    mode, by = policy["concurrency"]["mode"], policy["concurrency"]["steer_from"]
    words = {"mode": text.known(f"agents.mode.{mode}", mode), "by": text.known(f"agents.steer_from.{by}", by)}
    yield text("agents.concurrency", **words)
    gate: dict[str, Any] = policy["gate"]
    actors = printable(", ".join(gate["actors"])) or text("rights.none")
    yield text("agents.gate", who=text("agents.everyone") if gate["talk"] == "everyone" else actors)
    yield text("agents.budget", what=_listed(policy["budget"], text))
    yield text("agents.times", deadline=f"{agent['deadline_s']:g}", idle=f"{agent['idle_s']:g}")
    yield text("agents.config", config=printable(json.dumps(agent["config"], ensure_ascii=False)))
    yield from _warning_lines(agent, text)


def form_lines(config: Mapping[str, Any], form: Sequence[Mapping[str, Any]], text: Text) -> Iterator[str]:
    """The fields of a form that cannot be set: locked ones with the value and the reason, and `display` rows."""
    for item in form:
        label = printable(_in_language(item["label"], text))
        if item["type"] == "display":
            yield text("agents.form.display", label=label, value=printable(str(item["default"])))
        elif item.get("locked") is not None and item["name"] in config:  # a hidden field has no value
            value = shorten(json.dumps(config[item["name"]], ensure_ascii=False), _VALUE_CHARACTERS)
            why = printable(_in_language(item["locked"], text))
            yield text("agents.form.locked", label=label, value=printable(value), why=why)


def saved_lines(agent: dict[str, Any], text: Text) -> Iterator[str]:
    """The saved revision, and what runs of the agent would lack."""
    yield text("agents.saved", agent=agent["agent_id"], revision=agent["revision"])
    yield from _warning_lines(agent, text)


def _warning_lines(agent: dict[str, Any], text: Text) -> Iterator[str]:
    for each in agent.get("warnings", ()):  # a host of an earlier version sends none
        details = {"reason": each["reason"], **each["details"]}
        problem, hint = text.host_error("agent_warning", details, each["message"], each["hint"])
        yield text("agents.warning", problem=printable(problem))
        yield f"  {text('hint', hint=printable(hint))}"


def _listed(values: Mapping[str, Any], text: Text) -> str:
    """The permissions as `history: page, search; models: invoke`, or the word for none."""
    parts = (f"{name}: {_joined(value)}" for name, value in values.items())
    return printable("; ".join(parts)) or text("rights.none")


def _joined(value: list[str] | int) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


app = CommandGroup("agents")
app.add_list(
    AGENTS,
    (
        Column("agent", "agent_id"),
        Column("label", _shown_label),
        Column("runner", "runner_id"),
        Column("deadline", lambda agent, _: f"{agent['deadline_s']:g}", right=True),
    ),
    none="agents.none",
)


@app.command("show")
def show(shell: HostShell, agent: AgentId) -> int:
    found = shell.get(AGENTS.one(agent))
    if shell.for_programs:
        return shell.show(found, ())
    permissions = shell.get(AGENTS.one(agent, f"/permissions?locale={shell.text.language}"))["items"]
    may = (f"  {printable(each['text'])}" for each in permissions)
    runner = runner_meant(shell.all(RUNNERS), found["runner_id"])
    fixed = () if runner is None else form_lines(found["config"], runner["config_schema"], shell.text)
    return shell.show(found, [*agent_lines(found, shell.text), *fixed, shell.text("agents.permissions"), *may])


app.add_save(AGENTS, saved_lines)
app.add_delete(AGENTS, ("agent", AgentId))


@app.command("set")
def set_fields(
    shell: HostShell,
    agent: AgentId,
    fields: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="agents.set.fields")],
) -> int:
    assignments = [read_assignment(each) for each in fields]
    before = _document(shell, agent)
    after = assigned(before, assignments)
    if after == before:
        return shell.tell(shell.get(AGENTS.one(agent)), shell.text("agents.unchanged", agent=agent))
    try:
        saved = shell.put(AGENTS.one(agent), after)
    except HostRefusal as refusal:
        field = str(refusal.details.get("field")).removeprefix("agent.")
        if refusal.details.get("problem_type") == "extra_forbidden" and field in [each.key for each in assignments]:
            raise UsageProblem("error.assignment_field", "hint.assignment_field", field=field, agent=agent) from refusal
        raise
    changes = (
        shell.text("agents.changed", key=each.key, before=_shown(before, each.path), after=_shown(saved, each.path))
        for each in assignments
    )
    return shell.show(saved, [*changes, *saved_lines(saved, shell.text)])


@app.command("disable")
def disable(shell: HostShell, agent: AgentId) -> int:
    return _switch(shell, agent, enabled=False)


@app.command("enable")
def enable(shell: HostShell, agent: AgentId) -> int:
    return _switch(shell, agent, enabled=True)


def _switch(shell: HostShell, agent: str, *, enabled: bool) -> int:
    saved = shell.put(AGENTS.one(agent), {**_document(shell, agent), "enabled": enabled})
    key = "agents.now_enabled" if enabled else "agents.now_disabled"
    return shell.show(saved, [shell.text(key, agent=agent), *_warning_lines(saved, shell.text)])


@app.command("edit")
def edit(
    shell: HostShell,
    agent: AgentId,
    form: Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="agents.edit.format")] = "yaml",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="agents.edit.yes")] = False,
) -> int:
    if not yes and not shell.has_person:
        raise UsageProblem("error.edit_person", "hint.edit_person")
    chosen = cast("EditFormat", one_of("--format", form, FORMATS))
    file = EditedFile(agent, _document(shell, agent), chosen)
    while True:
        file.edit(os.environ)
        if not file.is_changed:
            file.remove()
            return shell.tell({"agent_id": agent, "changed": False}, shell.text("agents.unchanged", agent=agent))
        try:
            document = file.document()
            if not yes and not _is_confirmed(shell, file):
                raise UsageProblem("error.edit_declined", "hint.edit_kept", agent=agent, path=file.path)
            saved = shell.put(AGENTS.one(agent), document)
        except CliError as error:
            if error.key != "error.edit_declined":
                if not yes and _wants_again(shell, error):
                    if error.details.get("reason") == "revision_conflict":
                        _show_others(shell, file.rebase(_document(shell, agent)))
                    continue
                shell.console(stderr=True).print(shell.text("agents.edit.kept", path=file.path))
            raise
        file.remove()
        return shell.show(saved, saved_lines(saved, shell.text))


def _document(shell: HostShell, agent: str) -> "JsonObject":
    """The agent as `save` accepts it, with the revision that guards it."""
    return {name: value for name, value in shell.get(AGENTS.one(agent)).items() if name != "warnings"}


def _shown(document: "Mapping[str, Any]", path: Sequence[str]) -> str:
    value = value_at(document, path)
    return "–" if value is None else shorten(json.dumps(value, ensure_ascii=False), _VALUE_CHARACTERS)


def _is_confirmed(shell: HostShell, file: EditedFile) -> bool:
    for line in file.diff():
        shell.print(printable(line))
    return shell.confirm("agents.edit.question")


def _wants_again(shell: HostShell, error: CliError) -> bool:
    sentence, hint = error.sentences(shell.text)
    shell.print(printable(sentence))
    shell.print(shell.text("hint", hint=printable(hint)))
    return shell.confirm("agents.edit.again")


def _show_others(shell: HostShell, lines: Sequence[str]) -> None:
    """Show what others changed since the file was opened."""
    shell.print(shell.text("agents.edit.meanwhile"))
    for line in lines:
        shell.print(printable(line))


@app.command("new")
def new(
    shell: HostShell,
    agent: AgentId,
    runner: Annotated[str, typer.Option("--runner", metavar="RUNNER", help="agents.new.runner")],
) -> int:
    offered = shell.all(RUNNERS)
    found = runner_meant(offered, runner)
    if found is None:
        known = ", ".join(item["runner_id"] for item in offered)
        raise UsageProblem("error.no_such_runner", "hint.no_such_runner", runner=runner, known=known)
    shell.print_json(new_agent(agent, found))  # JSON also on a terminal, because it is a file to edit
    return 0


# --- draft of an agent: lists every requested permission, so that its author sees them ---


def runner_meant(offered: Sequence[Mapping[str, Any]], named: str) -> Mapping[str, Any] | None:
    """The runner with this id, or the runner whose built-in agent has it."""
    return next((item for item in offered if named in (item["runner_id"], _own_agent(item))), None)


def _own_agent(item: Mapping[str, Any]) -> str:
    _, name, runner = item["runner_id"].split("/")
    return name if runner == "default" else f"{name}.{runner}"


def new_agent(agent_id: str, runner: Mapping[str, Any]) -> "JsonObject":
    """A draft for `bollard agents save`: the manifest's permissions and the default configuration."""
    asked: Mapping[str, list[str]] = runner["permissions"]
    form: Sequence[Mapping[str, Any]] = runner["config_schema"]
    return {
        "agent_id": agent_id,
        "runner_id": runner["runner_id"],
        "label": runner["label"],
        "config": {
            item["name"]: item["default"]
            for item in form
            if item.get("default") is not None and item["type"] != "display"
        },
        "policy": {
            "access": {"permissions": {family: [*names] for family, names in asked.items() if names}},
            "concurrency": {"mode": "steer" if runner["capabilities"].get("steering") else "queue"},
        },
    }
