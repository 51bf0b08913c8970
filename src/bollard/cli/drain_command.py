"""`bollard drain`: let a host take nothing new, or take work again."""

import os
from typing import Annotated, Any, Final, cast

import typer

from bollard.cli.app import Command
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import HostClient, TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_PATH: Final = "/api/v1/host/drain"
_LOOK_S: Final = 0.5
"""Time between two looks whether anything still runs."""


@app.command(cls=Command, help="drain")
def drain(
    ctx: typer.Context,
    undo: Annotated[bool, typer.Option("--undo", help="drain.option.undo")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="drain.option.wait")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    if undo and wait:
        raise UsageProblem("error.drain", "hint.drain")
    shell: Shell = ctx.obj
    return asyncio.run(_drain(shell, find_host(url, token, os.environ), undo=undo, wait=wait))


async def _drain(shell: Shell, client: HostClient, *, undo: bool, wait: bool) -> int:
    import asyncio

    told = cast("dict[str, Any]", await client.post(_PATH, {"draining": not undo}))
    if not shell.for_programs:
        key = "drain.off" if undo else "drain.on"
        shell.print(shell.text(key, address=client.address, live=told["live"], queued=told["queued"]))
    while wait and told["live"]:
        await asyncio.sleep(_LOOK_S)
        told = cast("dict[str, Any]", await client.post(_PATH, {"draining": True}))
    if shell.for_programs:
        shell.print_json(told)
    elif wait:
        shell.print(shell.text("drain.empty"))
    return 0
