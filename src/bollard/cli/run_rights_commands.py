"""`bollard runs steer|explain|grant|revoke`: what a live run is told, what it may do, and what is taken from it."""

import os
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote, urlencode

import typer

from bollard.cli.actors import ActorOption, speaker
from bollard.cli.app import Command
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["RunId", "app", "run_path"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)

RunId = Annotated[str, typer.Argument(metavar="RUN", help="runs.run_id")]


def run_path(run: str, rest: str = "") -> str:
    """Where the host has a run; whatever the id is, it stays one part of the path."""
    return f"/api/v1/runs/{quote(run, safe='')}{rest}"


@app.command("steer", cls=Command, help="runs.steer")
def steer(
    ctx: typer.Context,
    run: RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="runs.steer.text")],
    actor: ActorOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio
    import secrets

    shell: Shell = ctx.obj
    client = find_host(url, token, os.environ)
    body: JsonObject = {"input": {"text": text.encode("utf-8", "replace").decode()}, "id": secrets.token_hex(16)}
    if (who := speaker(actor, named=client.is_named)) is not None:
        body["actor"] = {**who}
    answer = asyncio.run(client.post(run_path(run, "/steer"), body))
    if shell.for_programs:
        shell.print_json(answer)
    else:
        key = "runs.steered" if "steering" in answer else "runs.not_steered"
        shell.print(shell.text(key, run=answer["run_id"] or answer["event_id"]))
    return 0


@app.command("explain", cls=Command, help="runs.explain")
def explain(
    ctx: typer.Context,
    run: RunId,
    action: Annotated[str | None, typer.Argument(metavar="ACTION", help="runs.explain.action")] = None,
    thing: Annotated[str | None, typer.Argument(metavar="THING", help="runs.explain.thing")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    asked = {"action": action, "thing": thing, "locale": shell.text.language}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    answer = asyncio.run(find_host(url, token, os.environ).get(run_path(run, f"/explain?{query}")))
    if shell.for_programs:
        shell.print_json(answer)
        return 0
    from bollard.cli.rights_text import explained, explained_table

    items = cast("list[dict[str, Any]]", answer["items"])
    if action is None:
        shell.console().print(explained_table(items, shell.text))
        return 0
    for item in items:
        for line in explained(item, shell.text):
            shell.print(line)
    return 0


@app.command("grant", cls=Command, help="runs.grant")
def grant(ctx: typer.Context, run: RunId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(find_host(url, token, os.environ).get(run_path(run, "/grant")))
    if shell.for_programs:
        return shell.tell(answer)
    from bollard.cli.rights_text import granted

    return shell.tell(answer, *granted(answer, shell.text))


@app.command("revoke", cls=Command, help="runs.revoke")
def revoke(
    ctx: typer.Context,
    run: RunId,
    operation: Annotated[
        list[str] | None, typer.Option("--operation", metavar="NAME", help="runs.revoke.operation")
    ] = None,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", metavar="KIND:ID", help="runs.revoke.resource")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="runs.revoke.everything")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    if not (operation or resource or everything):
        raise UsageProblem("error.nothing_revoked", "hint.nothing_revoked", run=run)
    body: JsonObject = {}
    if operation:
        body["operations"] = [*operation]
    if resource:
        body["resources"] = {kind: [*things] for kind, things in _by_kind(resource).items()}
    if everything:
        body["everything"] = True
    answer = asyncio.run(find_host(url, token, os.environ).post(run_path(run, "/revoke"), body))
    if shell.for_programs:
        shell.print_json(answer)
        return 0
    from bollard.cli.records import taken_away

    what = taken_away(cast("JsonObject", answer["revoked"]), shell.text)
    shell.print(shell.text("runs.revoked", run=run, what=what))
    return 0


def _by_kind(resources: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for given in resources:
        kind, colon, name = given.partition(":")
        if not (kind and colon and name):
            raise UsageProblem("error.resource", "hint.resource", value=given)
        found.setdefault(kind, []).append(name)
    return found
