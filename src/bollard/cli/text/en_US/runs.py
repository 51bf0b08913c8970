"""English texts about state, conversations and artifacts."""

from typing import Final

STATE: Final = {
    "state": "Delete state values.",
    "state.purge": "Delete state values last written by a run, agent, actor or source.\n\nAll given conditions must "
    "match. Values overwritten by another writer stay.",
    "state.run": "Only values written by this run or by runs that it called.",
    "state.actor": "Only values written by runs for this actor, for example user:ann.",
    "state.agent": "Only values written by this agent or by agents that it called.",
    "state.source": "Only values written by runs that an event of this source started.",
    "state.dry_run": "Dry run: show what would be deleted.",
    "state.more": "… and {more} more",
    "state.found": "values to delete: {matched}",
    "state.purged": "values deleted: {deleted}",
    "state.kept": "values that changed meanwhile and were not deleted: {kept}",
    "state.unknown": "values with an unknown writer, not deleted: {unknown}",
    "error.purge": "no condition given",
    "hint.purge": "give --run, --actor, --agent or --source",
}

READING: Final = {
    "conversations": "List conversations and show their messages.",
    "conversations.list": "List conversations and threads, newest message first.",
    "conversations.show": "Show the newest messages of a conversation or thread.",
    "conversations.id": "Conversation id.",
    "conversations.thread": "Thread id (default: messages outside any thread).",
    "conversations.bot": "Bot of the conversation, if it has one.",
    "conversations.limit": "Number of entries, 1 to 100.",
    "conversations.none": "There are no conversations yet",
    "conversations.more": "… earlier messages exist; --limit shows up to 100, --json has a cursor",
    "conversations.column.conversation": "Conversation",
    "conversations.column.thread": "Thread",
    "conversations.column.bot": "Bot",
    "conversations.column.last": "Last message",
    "artifacts": "Show, download and remove artifacts.",
    "artifacts.show": "Show one artifact.",
    "artifacts.get": "Download an artifact to a file.\n\nThe digest is checked; a file that does not match is "
    "discarded.",
    "artifacts.id": "Artifact id, as named in records and messages.",
    "artifacts.file": "File to write; - writes to stdout.",
    "artifacts.remove": "Delete an artifact before it expires.\n\nReferences to it stop working.",
    "artifacts.removed": "removed artifact {artifact}",
    "artifacts.kept": "wrote {file} ({size} bytes)",
    "error.content": "the content of {artifact} does not match its digest",
    "hint.content": "download it again; if that fails too, the host's disk may be damaged",
}
