"""`bollard catalogue list | show | install | sign`: what the catalogues of a host offer, and the index of one's own."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource, read_json_document
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column, printable

if TYPE_CHECKING:
    from bollard.host.catalogue.index import CatalogueIndex

_PATH: Final = "/api/v1/catalogue"
_SAVED: Final = {"skill": Resource(path="/api/v1/skills", key="skill_id")}
_SAVED["mcp_server"] = Resource(path="/api/v1/mcp-servers", key="server_id")
_LIMIT: Final = 100
Ref = Annotated[str, typer.Argument(metavar="CATALOGUE/ITEM", help="catalogue.ref")]

app = CommandGroup("catalogue")


def _in(words: dict[str, str], text: Text) -> str:
    """The text in the person's language."""
    return printable(words.get(text.language) or words.get("en_US") or next(iter(words.values()), ""))


def _state(item: dict[str, Any], text: Text) -> str:
    return "" if item["installed"] is None else text("catalogue.here")


_COLUMNS: Final = (
    Column("ref", "ref"),
    Column("kind", lambda item, text: text(f"catalogue.kind.{item['kind']}")),
    Column("state", _state),
    Column("about", lambda item, text: _in(item["description"], text)),
)


def list_items(
    shell: HostShell,
    search: Annotated[str | None, typer.Option("--search", metavar="WORDS", help="catalogue.search")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="plugin|skill|mcp_server", help="catalogue.kind")
    ] = None,
) -> int:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = shell.get(_PATH, search=search, kind=kind, limit=_LIMIT, cursor=cursor)
        found += page["items"]
        if (cursor := page.get("next_cursor")) is None:
            break
    sources = shell.get("/api/v1/catalogue-sources")["items"]
    shell.show_items({"items": found, "sources": sources}, "catalogue", _COLUMNS, none="catalogue.none")
    for source in sources:
        if source["problem"] is not None and not shell.for_programs:
            details = source["problem_details"]
            said, hint = shell.text.host_error(details["code"], details, source["problem"], source["hint"])
            shell.print(shell.text("catalogue.problem", source=source["source"], problem=printable(said)))
            shell.print(shell.text("hint", hint=printable(hint)))
    return 0


app.command("list")(app.default(list_items))


@app.command("show")
def show(shell: HostShell, ref: Ref) -> int:
    item = _item(shell, ref)
    return shell.show(item, _lines(item, shell.text))


@app.command("install")
def install(
    shell: HostShell,
    ref: Ref,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="catalogue.name")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="catalogue.yes")] = False,
) -> int:
    item = _item(shell, ref)
    if name is not None and item["kind"] != "mcp_server":
        raise UsageProblem("error.catalogue_name", "hint.catalogue_name", item=ref)
    if item["kind"] == "plugin":
        return _install_plugin(shell, item, yes=yes)
    return _save(shell, item, name or item["name"], yes=yes)


def _install_plugin(shell: HostShell, item: dict[str, Any], *, yes: bool) -> int:
    """Installed and updated with the operations of plugins, which ask for consent."""
    from bollard.cli.plugins import host_plugins
    from bollard.cli.plugins.installed import tell_plugin

    installed = item["installed"]
    asking = host_plugins.consenting(shell, yes=yes)
    update = installed is not None and installed["origin"] == "installed"
    done = shell.run(
        host_plugins.install_item(shell.client, item["ref"], asking, update_of=item["name"] if update else None)
    )
    return tell_plugin(shell, done, "plugins.updated" if update else "plugins.installed")


def _save(shell: HostShell, item: dict[str, Any], name: str, *, yes: bool) -> int:
    """Saved like a skill or a server that a person writes. One that exists is not replaced."""
    if not yes:
        if not shell.has_person:
            raise UsageProblem("error.catalogue_consent", "hint.catalogue_consent", item=item["ref"])
        for line in _lines(item, shell.text):
            shell.print(line)
        if not shell.confirm("catalogue.question"):
            raise UsageProblem("error.refused", "hint.refused", plugin=item["ref"])
    body = item["server"] if item["kind"] == "mcp_server" else item["skill"]
    saved = shell.put(_SAVED[item["kind"]].one(name), {**body, "revision": 0})
    return shell.tell(
        saved,
        shell.text(f"catalogue.saved.{item['kind']}", name=name),
        *(shell.text("catalogue.secret", name=secret) for secret in item["secrets"]),
    )


def _item(shell: HostShell, ref: str) -> dict[str, Any]:
    source, slash, item_id = ref.partition("/")
    if not (source and slash and item_id) or "/" in item_id:
        raise UsageProblem("error.catalogue_ref", "hint.catalogue_ref", word=ref)
    return shell.get(Resource(path=_PATH, key="ref").one(source, f"/{item_id}"))


def _lines(item: dict[str, Any], text: Text) -> Iterator[str]:
    named = printable(f"{item['name']} {item['version']}").strip()
    kind = text(f"catalogue.kind.{item['kind']}")
    yield text("catalogue.head", label=_in(item["label"], text), kind=kind, name=named)
    yield _in(item["description"], text)
    if (installed := item["installed"]) is not None:
        yield text("catalogue.installed", name=printable(item["name"]), version=printable(installed["version"]))
    if "server" in item:
        server = item["server"]
        line = server.get("url") or shlex.join([server["command"], *server.get("args", [])])
        yield text("catalogue.server", line=printable(line))
    for secret in item["secrets"]:
        yield text("catalogue.secret", name=secret)
    readme = item["readme"].get(text.language) or item["readme"].get("en_US")
    whole = [readme] if readme else [file.get("text", file["path"]) for file in item.get("skill", {}).get("files", [])]
    for content in whole:
        yield ""
        yield from (printable(line) for line in content.splitlines())


@app.command("sign")
def sign(
    shell: Shell,
    draft: Annotated[Path, typer.Argument(metavar="DRAFT.json|DRAFT.yaml", help="catalogue.draft")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="catalogue.key")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="catalogue.out")],
) -> int:
    from bollard.host.catalogue.index import sign_index
    from bollard.host.errors import HostError
    from bollard.trust import KeyFileError
    from bollard.trust.keys import load_or_make_signing_key

    try:
        signing = load_or_make_signing_key(key)
        signed = sign_index(_with_digests(draft), signing)
        out.write_text(json.dumps(signed.to_wire(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except HostError as error:
        raise UsageProblem.of(error, "error.catalogue_sign", path=draft) from error
    except KeyFileError as error:
        raise UsageProblem("error.catalogue_sign", "hint.catalogue_sign", path=key, detail=error) from error
    except OSError as error:
        path = error.filename or draft
        raise UsageProblem("error.catalogue_sign", "hint.catalogue_sign", path=path, detail=error) from error
    public = signing.verify_key.public.hex()
    return shell.tell({"file": str(out), "public_key": public}, shell.text("catalogue.signed", path=out, key=public))


def _with_digests(path: Path) -> CatalogueIndex:
    """The index in a draft, with the digest of each file. Raises `UsageProblem`, `HostError`, `OSError`."""
    from bollard.host.catalogue.index import CatalogueFile, check_index

    index = check_index(read_json_document(str(path)))

    def digested(file: CatalogueFile) -> CatalogueFile:
        content = (path.parent / file.path).read_bytes()
        return file.model_copy(update={"sha256": hashlib.sha256(content).hexdigest()})

    items = tuple(
        item.model_copy(
            update={
                "readme": {language: digested(file) for language, file in item.readme.items()},
                "content": None if item.content is None else digested(item.content),
            }
        )
        for item in index.items
    )
    return index.model_copy(update={"items": items})
