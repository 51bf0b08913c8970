"""What the command line says in English about draining a host."""

from typing import Final

__all__ = ["OPERATING"]

OPERATING: Final = {
    "drain": "Let a host take nothing new, so that it can be stopped without anybody noticing.\n\n"
    "What runs goes on, what waits stays on disk, and /readyz says so.",
    "drain.option.undo": "Take work again.",
    "drain.option.wait": "Wait until nothing runs any more.",
    "drain.on": "{address} takes nothing new: {live} runs go on, {queued} wait on disk",
    "drain.off": "{address} takes work again",
    "drain.empty": "nothing runs there any more",
    "error.drain": "--undo and --wait do not go together",
    "hint.drain": "give one of them",
}
