"""What the command line says in English about files of a workspace."""

from typing import Final

__all__ = ["FILES"]

FILES: Final = {
    "files": "Add, list, show and remove files of the workspace, which agents can be given.\n\n"
    "Without a command it lists them.",
    "files.list": "List the files of the workspace.",
    "files.add": "Add a file to the workspace.\n\n"
    "Nobody gets it by that: an agent's configuration or policy names the files that it has.",
    "files.show": "Show what is known of a file.",
    "files.remove": "Remove a file. Runs that were given it cannot read it from then on.",
    "files.path": "The file.",
    "files.name": "What it is called; its own name otherwise.",
    "files.type": "Its media type; what its name says otherwise.",
    "files.id": "The id of the file.",
    "files.none": "The workspace has no files. Add one: bollard files add PATH",
    "files.added": "file {file} added: {name}, {size} bytes",
    "files.next": "give it to an agent: choose {file} in its configuration, or name it in its policy, "
    "access.resources.files.add",
    "files.removed": "file {file} removed",
    "files.column.file": "File",
    "files.column.name": "Name",
    "files.column.type": "Type",
    "files.column.size": "Bytes",
    "error.file": "{path} cannot be read: {detail}",
    "hint.file": "name a file that is there and that you may read",
    "error.file_large": "{path} is larger than {most} bytes",
    "hint.file_large": "give the agent a smaller file, or put it where a tool can read it",
}
