"""`bollard protocol schema` and `bollard openapi`: print or write the schemas of the protocol and the description of
the API. Needs no running host."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from bollard.cli.command import CommandGroup, single_command
from bollard.cli.errors import UsageProblem, writing
from bollard.cli.shell import Shell

protocol = CommandGroup("protocol")


@protocol.command("schema")
def schema(
    shell: Shell,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="protocol.schema.name")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="protocol.schema.out")] = None,
) -> int:
    from bollard.protocol.export import render, schema_documents

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
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for file, document in documents.items():
            (out / file).write_text(render(document), encoding="utf-8")
    return shell.tell(
        {"path": str(out), "files": sorted(documents)}, shell.text("schema.written", count=len(documents), path=out)
    )


@single_command("openapi")
def openapi(
    shell: Shell, out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="openapi.out")] = None
) -> int:
    from bollard.host.api import operations
    from bollard.host.http.openapi.document import described
    from bollard.protocol.export import render

    text = render(described(operations()))
    if out is None:
        shell.print(text.rstrip("\n"))
        return 0
    with writing(out):
        out.write_text(text, encoding="utf-8")
    return shell.tell({"path": str(out)}, shell.text("openapi.written", path=out))
