"""`bollard protocol schema`: the protocol's documents, printed or written. `bollard.protocol.export` makes them."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.app import Command, Group
from bollard.cli.errors import UsageProblem
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="protocol", no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def protocol() -> None:
    # A group with one command stays a group: others will follow.
    return


@app.command("schema", cls=Command, help="protocol.schema")
def schema(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="protocol.schema.name")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="protocol.schema.out")] = None,
) -> int:
    from bollard.protocol.export import render, schema_documents

    shell: Shell = ctx.obj
    documents = schema_documents()
    if name is not None:
        file = name if name.endswith(".json") else f"{name}.json"
        if file not in documents:
            near = difflib.get_close_matches(file, list(documents), n=1, cutoff=0.4)
            hint = "hint.schema_near" if near else "hint.schema"
            raise UsageProblem("error.schema", hint, name=name, near=near[0].removesuffix(".json") if near else "")
        documents = {file: documents[file]}
    if out is None:
        if name is None:
            shell.print_json({file.removesuffix(".json"): document for file, document in documents.items()})
        else:
            shell.print("".join(render(document) for document in documents.values()).rstrip("\n"))
        return 0
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file, document in documents.items():
            (out / file).write_text(render(document), encoding="utf-8")
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=out, detail=error.strerror or error) from error
    return shell.tell(
        {"path": str(out), "files": sorted(documents)}, shell.text("schema.written", count=len(documents), path=out)
    )
