"""`bollard capabilities …`: lists the capabilities of a workspace, and explains why an agent can or cannot use one.

Names and descriptions come from the author of a tool, so invisible characters in them are shown. The reasons come from
the host, in the reader's language.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bollard.cli.client.documents import AGENTS, Resource
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, answer, styled
from bollard.host.approvals.visible_text import visible

if TYPE_CHECKING:
    from rich.text import Text as Styled

CAPABILITIES: Final = Resource(path="/api/v1/capabilities", key="id")
_CALL: Final = "tools.call"
_STYLES: Final = {"high": "yellow", "critical": "red"}
_FLOW: Final = ("reads_private", "brings_untrusted", "sends_out")


def _risk(item: dict[str, Any], text: Text) -> str | Styled:
    if not item["available"]:
        return ""
    risk = item["risk"]
    return styled(text.known(f"capabilities.risk.{risk}", risk), _STYLES.get(risk, ""))


def _flow(item: dict[str, Any], text: Text) -> str:
    held = [name for name in _FLOW if item["available"] and item["flow"].get(name)]
    return ", ".join(text(f"capabilities.flow.{name}") for name in held)


def _about(item: dict[str, Any], text: Text) -> str | Styled:
    if item["available"]:
        return visible(item["description"].partition("\n")[0])
    reason = text.problem({"problem": item["reason"], **item.get("reason_details", {})})
    return styled(text("capabilities.absent", reason=visible(reason)), "yellow")


def reason_text(reason: dict[str, Any], text: Text) -> str:
    """The sentence of a layer. The host does not translate the problem of a source, so it is translated here."""
    if "problem" not in reason:
        return reason["text"]
    problem = text.problem({"problem": reason["problem"], **reason["problem_details"]})
    return text("rights.absent", thing=reason["thing"], problem=problem)


_ID: Final = Column("capability", lambda item, _: visible(item["id"]), no_wrap=True)
OFFERED: Final = (_ID, Column("risk", _risk), Column("flow", _flow), Column("about", _about))
"""Every capability, with the reason if it is unavailable."""


def _callable_name(item: dict[str, Any], text: Text) -> str:
    del text
    return visible(item.get("name", "")) if _CALL in item["operations"] else ""


def _can_use(item: dict[str, Any]) -> bool:
    return _CALL in item["operations"] or item.get("code") is None


def _why_not(item: dict[str, Any], text: Text) -> str:
    return "" if _can_use(item) else " ".join(visible(reason_text(reason, text)) for reason in item["reasons"])


EXPLAINED: Final = (
    _ID,
    Column("name", _callable_name),
    Column("can", lambda item, text: answer(_can_use(item), text)),
    Column("why", _why_not),
)
"""Everything that an agent requests, with the reason if it is denied."""


def explained(item: dict[str, Any], text: Text) -> Iterator[str]:
    """One decision, and each layer that took part in it on its own line."""
    capability = visible(item["id"])
    if _CALL in item["operations"]:
        yield text("capabilities.can", capability=capability, name=visible(item["name"]))
    elif item.get("code") is None:
        yield text("capabilities.has", capability=capability)
    else:
        yield text("capabilities.cannot", capability=capability, code=item["code"])
    for reason in item["reasons"]:
        layer = text.known(f"layer.{reason['layer']}", reason["layer"])
        yield "  " + text("rights.reason", layer=layer, reason=visible(reason_text(reason, text)))


app = CommandGroup("capabilities")
app.add_list(CAPABILITIES, OFFERED, none="capabilities.none")


@app.command("explain")
def explain(
    shell: HostShell,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="capabilities.agent")],
    capability: Annotated[str | None, typer.Argument(metavar="CAPABILITY", help="capabilities.capability")] = None,
) -> int:
    path = AGENTS.one(agent, "/capabilities")
    found = shell.get(path, capability=capability, locale=shell.text.language)
    items: list[dict[str, Any]] = found["items"]
    if shell.for_programs:
        shell.print_json(found)
    elif not items:
        shell.print(shell.text("capabilities.none_asked", agent=agent))
    elif capability is None:
        shell.print_table("capabilities", EXPLAINED, items)
        shell.print(shell.text("capabilities.graph", digest=found["graph_sha256"]))
    else:
        for line in explained(items[0], shell.text):
            shell.print(line)
    return 0
