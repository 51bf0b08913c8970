"""What the command line says in English about what was said, and what came of it."""

from typing import Final

__all__ = ["READING"]

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
