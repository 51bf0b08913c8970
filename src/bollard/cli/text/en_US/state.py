"""What the command line says in English about state."""

from typing import Final

__all__ = ["STATE"]

STATE: Final = {
    "state": "Delete what somebody wrote into state.",
    "state.purge": "Delete the state values that a run, an agent, an actor or a source wrote last.\n\n"
    "What is named must all be true. Values that somebody else has overwritten stay.",
    "state.run": "Only what this run, or one that it called, wrote.",
    "state.actor": "Only what runs for this actor wrote, such as user:ann.",
    "state.agent": "Only what this agent, or one that it called, wrote.",
    "state.source": "Only what runs wrote that began with an event of this source.",
    "state.dry_run": "Delete nothing; show what would be.",
    "state.more": "… and {more} more",
    "state.found": "values that would be deleted: {matched}",
    "state.purged": "values deleted: {deleted}",
    "state.kept": "values that changed meanwhile and stay: {kept}",
    "state.unknown": "values whose writer is not known, and that stay: {unknown}",
    "error.purge": "nothing says whose state is meant",
    "hint.purge": "give --run, --actor, --agent or --source",
}
