"""`bollard plugin install | list | show | enable | disable | update | rollback | restart | remove | logs | dev`: the
plugins of a host. Reads the arguments and hands them on."""

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bollard.cli.app import Command
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, at_host
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.cli.plugin_requests import Consenting

__all__ = ["add_host_commands", "consenting"]

PluginId = Annotated[str, typer.Argument(metavar="AUTHOR/NAME", help="plugins.id")]
Source = Annotated[str, typer.Argument(metavar="FOLDER|FILE.py|FILE.zip|FILE.whl|PACKAGE", help="plugins.source")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="plugins.yes")]
_LINES = 200


def add_host_commands(app: typer.Typer) -> None:
    """Put these commands into the group `plugin`."""
    app.command("install", cls=Command, help="plugin.install")(install)
    app.command("list", cls=Command, help="plugin.list")(list_plugins)
    app.command("show", cls=Command, help="plugin.show")(show)
    app.command("enable", cls=Command, help="plugin.enable")(enable)
    app.command("disable", cls=Command, help="plugin.disable")(disable)
    app.command("update", cls=Command, help="plugin.update")(update)
    app.command("rollback", cls=Command, help="plugin.rollback")(rollback)
    app.command("restart", cls=Command, help="plugin.restart")(restart)
    app.command("remove", cls=Command, help="plugin.remove")(remove)
    app.command("logs", cls=Command, help="plugin.logs")(logs)
    app.command("dev", cls=Command, help="plugin.dev")(dev)


def install(
    ctx: typer.Context,
    source: Source,
    package: Annotated[bool, typer.Option("--package", help="plugins.package")] = False,
    workers: Annotated[int, typer.Option("--workers", metavar="NUMBER", help="plugins.workers")] = 1,
    yes: Yes = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli import plugin_requests

    shell, client = at_host(ctx, url, token)
    asking = consenting(shell, yes=yes)
    made = asyncio.run(plugin_requests.install(client, source, asking, package=package, workers=workers))
    return _told(shell, made, "plugins.installed")


def update(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FOLDER|FILE|AUTHOR/NAME", help="plugins.source")],
    package: Annotated[str | None, typer.Option("--package", metavar="PACKAGE", help="plugins.update.package")] = None,
    yes: Yes = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli import plugin_requests

    shell, client = at_host(ctx, url, token)
    asking = consenting(shell, yes=yes)
    return _told(shell, asyncio.run(plugin_requests.update(client, source, asking, package=package)), "plugins.updated")


def list_plugins(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.plugin_requests import all_plugins

    shell, client = at_host(ctx, url, token)

    async def collected() -> list[dict[str, Any]]:
        return [item async for item in all_plugins(client)]

    items = asyncio.run(collected())
    if shell.for_programs:
        shell.print_json({"items": items})
        return 0
    from bollard.cli.plugin_text import plugins_table

    shell.console().print(plugins_table(items, shell.text))
    return 0


def show(ctx: typer.Context, plugin: PluginId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.plugin_requests import one

    shell, client = at_host(ctx, url, token)
    found = asyncio.run(client.get(one(plugin)))
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.plugin_text import plugin_lines

    return shell.tell(found, *plugin_lines(cast("dict[str, Any]", found), shell.text))


def enable(ctx: typer.Context, plugin: PluginId, url: UrlOption = None, token: TokenOption = None) -> int:
    return _switched(ctx, plugin, url, token, on=True)


def disable(ctx: typer.Context, plugin: PluginId, url: UrlOption = None, token: TokenOption = None) -> int:
    return _switched(ctx, plugin, url, token, on=False)


def _switched(ctx: typer.Context, plugin: str, url: str | None, token: str | None, *, on: bool) -> int:
    import asyncio

    from bollard.cli.plugin_requests import one

    shell, client = at_host(ctx, url, token)
    changed = asyncio.run(client.patch(one(plugin), {"enabled": on}))
    return _told(shell, changed, "plugins.enabled" if on else "plugins.disabled")


def rollback(
    ctx: typer.Context,
    plugin: PluginId,
    to: Annotated[str | None, typer.Option("--to", metavar="DIGEST", help="plugins.to")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.plugin_requests import one

    shell, client = at_host(ctx, url, token)
    body = {} if to is None else {"digest": to}
    return _told(shell, asyncio.run(client.post(f"{one(plugin)}/rollback", {**body})), "plugins.updated")


def restart(ctx: typer.Context, plugin: PluginId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.plugin_requests import one

    shell, client = at_host(ctx, url, token)
    return _told(shell, asyncio.run(client.post(f"{one(plugin)}/restart", {})), "plugins.restarted")


def remove(ctx: typer.Context, plugin: PluginId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    from bollard.cli.plugin_requests import one

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(client.delete(one(plugin)))
    return shell.tell(answer, shell.text("plugins.removed", plugin=plugin))


def logs(
    ctx: typer.Context,
    plugin: PluginId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="plugins.follow")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="NUMBER", help="plugins.lines")] = _LINES,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.plugin_following import print_logs

    if not 1 <= lines <= 2000:
        raise UsageProblem("error.lines", "hint.lines", value=lines)
    shell, client = at_host(ctx, url, token)
    return asyncio.run(print_logs(shell, client, plugin, lines=lines, follow=follow))


def dev(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FOLDER|FILE.py", help="plugin.path")],
    yes: Yes = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.plugin_dev import Developing

    shell, client = at_host(ctx, url, token)
    return asyncio.run(Developing(shell, client, path, consenting(shell, yes=yes)).run())


def _told(shell: Shell, plugin: Any, key: str) -> int:
    if shell.for_programs:
        shell.print_json(plugin)
    else:
        version, digest = plugin["version"] or "", (plugin["digest"] or "")[:12]
        shell.print(shell.text(key, plugin=plugin["plugin_id"], version=version, digest=digest))
    return 0


def consenting(shell: Shell, *, yes: bool) -> "Consenting":
    """Shows what is asked for; on a terminal asks, elsewhere wants `--yes`."""

    def asked(details: dict[str, Any]) -> bool:
        from bollard.cli.plugin_text import asked_lines, change_lines

        plugin = details["plugin"]
        if not shell.for_programs:
            shell.print(shell.text("plugins.asks", plugin=plugin, version=details["version"]))
            for line in asked_lines(details["asks"], shell.text):
                shell.print(f"  {line}")
            if details["change"]["removed"] or len(details["change"]["added"]) < _wishes(details["asks"]):
                shell.print(shell.text("plugins.change"))
                for line in change_lines(details["change"]):
                    shell.print(line)
        if yes:
            return True
        if shell.mode != "terminal" or not sys.stdin.isatty():
            raise UsageProblem("error.consent", "hint.consent", plugin=plugin, version=details["version"])
        if _answer(shell.text("plugins.question")) in ("y", "yes", "是", "好"):
            return True
        raise UsageProblem("error.refused", "hint.refused", plugin=plugin)

    return asked


def _answer(question: str) -> str:
    """What a person types. Ctrl-C ends the command also while a loop runs, which would only take note of it."""
    sys.stdout.write(question)
    sys.stdout.flush()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline().strip().lower()
    finally:
        signal.signal(signal.SIGINT, before)


def _wishes(asks: dict[str, Any]) -> int:
    """How many things are asked for, as a change counts them."""
    permissions = sum(1 + len(names) for names in asks["runners"].values())
    return permissions + len(asks["env"]) + len(asks["tools"])
