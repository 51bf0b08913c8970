"""Log records and the output of runners."""

import asyncio
from typing import cast

from bollard.conformance.connection import shorten
from bollard.conformance.errors import CaseFailed
from bollard.conformance.registry import Cases
from bollard.conformance.scripted_run import step
from bollard.conformance.session import Session
from bollard.protocol import JsonObject, limits

CASES = Cases()

_FLOOD = 2000


async def _record(session: Session, message: str) -> JsonObject:
    def find() -> JsonObject | None:
        return next((record for record in session.judge.logs if str(record["message"]).startswith(message)), None)

    return await session.until(find, f"a log record {message!r}")


@CASES.shared("a log record carries level, message, fields and the run id", "P11-17")
async def log_record(session: Session) -> None:
    run = session.start([step("log", level="warning", message="mind the gap", fields={"n": 1, "deep": {"x": [None]}})])
    await run.completes()
    record = await _record(session, "mind the gap")
    fields = cast("JsonObject", record.get("fields", {}))
    if record["level"] != "warning" or record.get("run_id") != run.id or fields.get("deep") != {"x": [None]}:
        raise CaseFailed(f"warning of {run.id} with its fields", f"the record is {shorten(record)}")


@CASES.own(
    "log records are limited to bursts of 400 and 100 a second, and the number of dropped records is reported", "P11-18"
)
async def log_flood(session: Session) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    script = [step("flood_log", count=_FLOOD), step("wait", ms=300), step("log", message="after the flood")]
    run = session.start(script)
    await run.completes()
    await _record(session, "after the flood")
    most = limits.LOG_RECORDS_BURST + limits.LOG_RECORDS_PER_S * (loop.time() - began) + 1
    if (came := len(session.judge.logs)) > most:
        raise CaseFailed(f"at most {most:.0f} records", f"{came} came")
    dropped = sum(cast("int", cast("JsonObject", r.get("fields", {})).get("dropped", 0)) for r in session.judge.logs)
    flooded = len([record for record in session.judge.logs if record["message"] == "flood"])
    if dropped < _FLOOD - flooded:
        raise CaseFailed(f"fields.dropped to add up to {_FLOOD - flooded}", f"it adds up to {dropped}")


@CASES.shared("a log message of more than 8192 characters is cut, and fields.cut_characters says by how much", "P11-19")
async def log_long_message(session: Session) -> None:
    over = 1000
    message = "long " + "y" * (limits.LOG_MESSAGE_CHARACTERS + over - 5)
    run = session.start([step("log", message=message)])
    await run.completes()
    record = await _record(session, "long yyy")
    cut = cast("JsonObject", record.get("fields", {})).get("cut_characters")
    kept = len(str(record["message"]))
    if not isinstance(cut, int) or kept + cut < len(message):
        raise CaseFailed(f"fields.cut_characters of at least {len(message) - kept}", f"it is {shorten(cut)}")


@CASES.shared("printed text reaches stdout, stderr or a log record, and never the connection as a frame", "P11-20")
async def print_is_not_the_channel(session: Session) -> None:
    text = '{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"printed"}}'
    run = session.start([step("print", text=text), step("delta", text="x")])
    await run.completes()

    def printed() -> bool:
        lines = [line for _, line in session.output] + [str(record["message"]) for record in session.judge.logs]
        return any("printed" in line for line in lines)

    loop = asyncio.get_running_loop()
    end = loop.time() + 3
    while not printed():
        if loop.time() > end:
            raise CaseFailed("the printed line in the output or the log", "it is in neither")
        await session.ping()
        await asyncio.sleep(0.02)  # the pipes are read beside the connection, without a notification
