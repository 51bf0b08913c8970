"""`bollard plugin install | list | show | enable | disable | update | rollback | restart | remove | logs | dev`: the
plugins of a host."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bollard.cli.errors import UsageProblem
from bollard.cli.options import given_values
from bollard.cli.plugins.plugin import app
from bollard.cli.shell import HostShell

PluginId = Annotated[str, typer.Argument(metavar="AUTHOR/NAME", help="plugins.id")]
Source = Annotated[str, typer.Argument(metavar="FOLDER|FILE.py|FILE.zip|FILE.whl|PACKAGE", help="plugins.source")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="plugins.yes")]
_LINES = 200


@app.command("install")
def install(
    shell: HostShell,
    source: Source,
    package: Annotated[bool, typer.Option("--package", help="plugins.package")] = False,
    workers: Annotated[int, typer.Option("--workers", metavar="NUMBER", help="plugins.workers")] = 1,
    yes: Yes = False,
) -> int:
    from bollard.cli.plugins import host_plugins

    asking = host_plugins.consenting(shell, yes=yes)
    made = shell.run(host_plugins.install(shell.client, source, asking, package=package, workers=workers))
    return tell_plugin(shell, made, "plugins.installed")


@app.command("list")
def list_plugins(shell: HostShell) -> int:
    from bollard.cli.plugins.host_plugins import PLUGIN_COLUMNS, PLUGINS

    found = {"items": shell.all(PLUGINS)}
    if shell.for_programs:
        shell.print_json(found)
    else:
        shell.print_table("plugins", PLUGIN_COLUMNS, found["items"])
    return 0


@app.command("show")
def show(shell: HostShell, plugin: PluginId) -> int:
    from bollard.cli.plugins.host_plugins import plugin_lines

    found = shell.get(_path(plugin))
    return shell.show(found, plugin_lines(found, shell.text))


@app.command("enable")
def enable(shell: HostShell, plugin: PluginId) -> int:
    return tell_plugin(shell, shell.patch(_path(plugin), {"enabled": True}), "plugins.enabled")


@app.command("disable")
def disable(shell: HostShell, plugin: PluginId) -> int:
    return tell_plugin(shell, shell.patch(_path(plugin), {"enabled": False}), "plugins.disabled")


@app.command("update")
def update(
    shell: HostShell,
    source: Annotated[str, typer.Argument(metavar="FOLDER|FILE|AUTHOR/NAME", help="plugins.source")],
    package: Annotated[str | None, typer.Option("--package", metavar="PACKAGE", help="plugins.update.package")] = None,
    yes: Yes = False,
) -> int:
    from bollard.cli.plugins import host_plugins

    asking = host_plugins.consenting(shell, yes=yes)
    return tell_plugin(
        shell, shell.run(host_plugins.update(shell.client, source, asking, package=package)), "plugins.updated"
    )


@app.command("rollback")
def rollback(
    shell: HostShell,
    plugin: PluginId,
    to: Annotated[str | None, typer.Option("--to", metavar="DIGEST", help="plugins.to")] = None,
) -> int:
    return tell_plugin(shell, shell.post(_path(plugin, "/rollback"), given_values({"digest": to})), "plugins.updated")


@app.command("restart")
def restart(shell: HostShell, plugin: PluginId) -> int:
    return tell_plugin(shell, shell.post(_path(plugin, "/restart")), "plugins.restarted")


@app.command("remove")
def remove(shell: HostShell, plugin: PluginId) -> int:
    return shell.tell(shell.delete(_path(plugin)), shell.text("plugins.removed", plugin=plugin))


@app.command("logs")
def logs(
    shell: HostShell,
    plugin: PluginId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="plugins.follow")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="NUMBER", help="plugins.lines")] = _LINES,
) -> int:
    from bollard.cli.plugins.host_plugins import print_logs

    if not 1 <= lines <= 2000:
        raise UsageProblem("error.lines", "hint.lines", value=lines)
    return shell.run(print_logs(shell, shell.client, plugin, lines=lines, follow=follow))


@app.command("dev")
def dev(
    shell: HostShell,
    path: Annotated[Path, typer.Argument(metavar="FOLDER|FILE.py", help="plugin.path")],
    yes: Yes = False,
) -> int:
    from bollard.cli.plugins.development import DevelopmentSession
    from bollard.cli.plugins.host_plugins import consenting

    return shell.run(DevelopmentSession(shell, shell.client, path, consenting(shell, yes=yes)).run())


def _path(plugin: str, rest: str = "") -> str:
    from bollard.cli.plugins.host_plugins import one

    return one(plugin, rest)


def tell_plugin(shell: HostShell, plugin: Any, key: str) -> int:
    from bollard.cli.plugins.host_plugins import problem_lines

    version, digest = plugin["version"] or "", (plugin["digest"] or "")[:12]
    done = shell.text(key, plugin=plugin["plugin_id"], version=version, digest=digest)
    return shell.tell(plugin, done, *problem_lines(plugin, shell.text))
