"""What the command line says in English about state."""

from typing import Final

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


# What the command line says in English about what was said, and what came of it.


READING: Final = {
    "conversations": "List conversations and show what was said in one.",
    "conversations.list": "List conversations and their threads, the one with the newest message first.",
    "conversations.show": "Show the newest messages of a conversation, or of one of its threads.",
    "conversations.id": "The conversation's id.",
    "conversations.thread": "A thread of it; without this, what was said outside of any thread.",
    "conversations.bot": "The bot that the conversation is with, where there is one.",
    "conversations.limit": "How many, 1 to 100.",
    "conversations.none": "nothing was said in any conversation yet",
    "conversations.more": "… there is more before this; --limit shows up to 100, --json has a cursor",
    "conversations.column.conversation": "Conversation",
    "conversations.column.thread": "Thread",
    "conversations.column.bot": "Bot",
    "conversations.column.last": "Last message",
    "artifacts": "Show what is known of an artifact, and fetch its content.",
    "artifacts.show": "Show what is known of an artifact.",
    "artifacts.get": "Write the content of an artifact to a file.\n\nIts digest is checked; what arrives otherwise is "
    "not kept.",
    "artifacts.id": "The artifact's id, as records and messages name it.",
    "artifacts.file": "Where to write it; - for standard output.",
    "artifacts.remove": "Delete an artifact before its time.\n\nWhoever refers to it finds none from then on.",
    "artifacts.removed": "artifact {artifact} removed",
    "artifacts.kept": "wrote {file} ({size} bytes)",
    "error.content": "the content of {artifact} is not what the host says it is",
    "hint.content": "fetch it again; if that does not help, the host's disk may be damaged",
}
