"""A courier that asks before each delivery, and reports to the conversation the outcome of a call that outlived its
run."""

from pathlib import Path

from bollard.sdk import AgentAPIException, RunContext, runner, tool


@tool()
def deliver(ledger: str, parcel: str) -> str:
    """Deliver a parcel."""
    with Path(ledger).open("a", encoding="utf-8") as book:
        book.write(parcel + "\n")
    return f"delivered {parcel}"


@runner(name="default", label="Courier", permissions={"tools": ["call", "detail"]})
async def courier(ctx: RunContext):
    if ctx.event.event_type == "approval.decided":
        yield ctx.completed(f"the parcel: {ctx.event.data['outcome']}")
        return
    try:
        found = await ctx.api.tools.call("deliver", ctx.event.data)
    except AgentAPIException as refused:
        yield ctx.completed(f"refused: {refused.error.code}")
    else:
        yield ctx.completed(found.content[0].text)
