"""A plugin that fills a conversation in one run: with messages, or with a picture. Loaded by the host of the tests."""

import base64

from bollard.sdk import RunContext, runner

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@runner(name="talk", label="Talk")
async def talk(ctx: RunContext):
    """`COUNT FACT`: this many messages, the third of which has the fact; user and assistant by turns."""
    count, _, fact = (ctx.input.text or "").partition(" ")
    for number in range(1, int(count) + 1):
        role = "user" if number % 2 else "assistant"
        text = f"Message {number} is about the weather, the garden and nothing that matters."
        yield ctx.completed({"role": role, "content": fact if number == 3 else text}, message_id=f"m{number}")


@runner(name="picture", label="Picture", permissions={"artifacts": ["write"]})
async def picture(ctx: RunContext):
    """A picture, and a text file beside it."""
    yield ctx.artifact("image", content=PICTURE, mime_type="image/png", name="dot.png")
    yield ctx.artifact("file", content=b"The harbour opens at seven.", mime_type="text/plain", name="note.txt")
    yield ctx.completed("Here they are.")
