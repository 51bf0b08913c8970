"""Three tools for the conformance kit: one that answers, one that is slow, one that fails."""

import asyncio

from bollard.sdk import tool


@tool()
async def echo(text: str) -> dict[str, str]:
    """Says back its text."""
    return {"text": text}


@tool()
async def slow(ms: int) -> dict[str, int]:
    """Answers after the given time."""
    await asyncio.sleep(ms / 1000)
    return {"waited_ms": ms}


@tool()
async def broken() -> None:
    """Fails whenever it is called."""
    raise RuntimeError("broken by design")
