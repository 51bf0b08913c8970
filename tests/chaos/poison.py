"""A runner with poison events. It writes a line for each attempt before it fails."""

import asyncio
import ctypes
import os
import signal
from pathlib import Path

from bollard.sdk import RunContext, runner


class Unspeakable(Exception):
    """Cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("not that either")


def endless() -> None:
    endless()


def circle() -> dict[str, object]:
    own: dict[str, object] = {}
    own["own"] = own
    return own


def deep(levels: int) -> list[object]:
    inner: list[object] = []
    for _ in range(levels):
        inner = [inner]
    return inner


RAISED = {
    "raises": lambda: RuntimeError("as always"),
    "unspeakable": Unspeakable,
    "long": lambda: RuntimeError("x" * 1_000_000),
    "surrogate_error": lambda: RuntimeError("half a \ud800 character"),
    "exits": lambda: SystemExit(3),
    "interrupts": lambda: KeyboardInterrupt("no"),
    "cancels": lambda: asyncio.CancelledError("myself"),
    "closes": lambda: GeneratorExit("gone"),
    "group": lambda: BaseExceptionGroup("several", [RuntimeError("one"), SystemExit(1)]),
}
UNSENDABLE = {
    "object": object,
    "set": lambda: {1, 2},
    "bytes": lambda: b"\xff",
    "nan": lambda: float("nan"),
    "surrogate": lambda: "half a \ud800 character",
    "circle": circle,
    "deep": lambda: deep(100_000),
    "keys": lambda: {(1, 2): 3},
    "integer": lambda: 10**5000,
}
FATAL = {
    "exit": lambda: os._exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "abort": os.abort,
}


def leave_line(effects: str, line: str) -> None:
    """One append to the end of the file, safe beside other writers."""
    with Path(effects).open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


@runner(label="Poison", capabilities=["interrupt"])
async def poison(ctx: RunContext):
    kind = ctx.event.data["kind"]
    leave_line(ctx.event.data["effects"], ctx.event.data["name"])
    if kind in RAISED:
        raise RAISED[kind]()
    if kind in FATAL:
        yield ctx.delta("so far")
        FATAL[kind]()
    if kind in UNSENDABLE:
        yield ctx.state("conversation", "value", UNSENDABLE[kind]())
    if kind == "no_result":
        yield 42
    if kind == "recursion":
        endless()
    if kind == "hold":  # until its host dies
        yield ctx.delta("under way")
        await asyncio.sleep(3600)
    yield ctx.completed(f"{ctx.event.data['name']} done")
