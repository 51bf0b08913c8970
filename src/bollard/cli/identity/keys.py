"""`bollard keys …`: API keys for programs. A token is printed once."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.options import one_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.times import day_of, seconds_of

KEYS: Final = Resource(path="/api/v1/keys", key="key_id")
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="keys.id")]


def _until(key: dict[str, Any], text: Text) -> str:
    return text("keys.state.expired") if key["expired"] else day_of(key["expires_at"])


def _last_use(key: dict[str, Any], text: Text) -> str:
    used = key.get("last_used_at")
    return text("keys.state.unused") if used is None else day_of(used)


def key_lines(key: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a key."""
    yield text("keys.head", key=key["key_id"], name=printable(key["name"]))
    yield text("keys.rights", rights=", ".join(key["rights"]))
    yield text("keys.made", by=printable(key["made_by"]), at=day_of(key["created_at"]))
    yield text("keys.expired" if key["expired"] else "keys.until", at=day_of(key["expires_at"]))
    used = key.get("last_used_at")
    yield text("keys.unused") if used is None else text("keys.used", at=day_of(used))


app = CommandGroup("keys")
app.add_list(
    KEYS,
    (
        Column("key", "key_id"),
        Column("name", "name"),
        Column("rights", lambda key, _: ", ".join(key["rights"])),
        Column("until", _until),
        Column("used", _last_use),
    ),
    none="keys.none",
)


@app.command("add")
def add(
    shell: HostShell,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="keys.name")],
    right: Annotated[list[str], typer.Option("--right", metavar="RIGHT", help="keys.right")],
    expires: Annotated[str, typer.Option("--expires", metavar="90d|12h|…", help="keys.expires")] = "90d",
) -> int:
    from bollard.host.identity.caller import RIGHTS

    rights = [one_of("--right", each, RIGHTS) for each in right]
    made = shell.post(KEYS.path, {"name": name, "rights": rights, "expires_in_s": seconds_of(expires)})
    return shell.tell(
        made,
        shell.text("keys.added", key=made["key_id"], until=day_of(made["expires_at"])),
        made["token"],
        shell.text("keys.once"),
    )


app.add_show(KEYS, ("key", KeyId), key_lines)
app.add_delete(KEYS, ("key", KeyId))
