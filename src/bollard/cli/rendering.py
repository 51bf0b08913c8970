"""Chooses the renderer that fits where a command runs."""

import sys

from bollard.cli.render import Renderer
from bollard.cli.render_json import JsonRenderer
from bollard.cli.render_text import TextRenderer
from bollard.cli.shell import Shell

__all__ = ["renderer_for"]


def renderer_for(shell: Shell) -> Renderer:
    """Lines for a program, or for a person; beside a pipe the answers stand alone on stdout."""
    if shell.for_programs:
        return JsonRenderer(sys.stdout, sys.stderr, shell.text)
    out = shell.console()
    return TextRenderer(out, out if shell.mode == "terminal" else shell.console(stderr=True), shell.text)
