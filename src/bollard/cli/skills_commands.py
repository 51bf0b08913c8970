"""`bollard skills …`: adds folders with a `SKILL.md` to a workspace, lists, shows and removes them."""

import os
from pathlib import Path
from typing import Annotated, cast

import typer

from bollard.cli.app import Command, Group
from bollard.cli.documents import SKILLS
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="skills", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

SkillName = Annotated[str, typer.Argument(metavar="SKILL", help="skills.name")]


@app.callback()
def skills(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="skills.list")
def list_skills(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("add", cls=Command, help="skills.add")
def add(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="skills.folder")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.skill_packing import pack_skill

    shell: Shell = ctx.obj
    name, body = pack_skill(folder)
    saved = asyncio.run(SKILLS.put(find_host(url, token, os.environ), name, body))
    if shell.for_programs:
        shell.print_json(saved)
        return 0
    version = str(saved["version"])[:12]
    shell.print(shell.text("skills.saved", skill=name, version=version, revision=saved["revision"]))
    wishes = cast("list[str]", saved["requested_tools"])
    if wishes:
        shell.print(shell.text("skills.wishes", tools=", ".join(wishes)))
    shell.print(shell.text("skills.next", skill=name))
    return 0


@app.command("show", cls=Command, help="skills.show")
def show(ctx: typer.Context, skill: SkillName, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = asyncio.run(SKILLS.get(find_host(url, token, os.environ), skill))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.skills_text import skill_lines

    return shell.tell(found, *skill_lines(found, shell.text))


@app.command("remove", cls=Command, help="skills.remove")
def remove(ctx: typer.Context, skill: SkillName, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(SKILLS.delete(find_host(url, token, os.environ), skill))
    return shell.tell(answer, shell.text("skills.removed", skill=skill))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, SKILLS, url, token, none="skills.none")
    if not items:
        return 0
    from bollard.cli.skills_text import skills_table

    shell.console().print(skills_table(items, shell.text))
    return 0
