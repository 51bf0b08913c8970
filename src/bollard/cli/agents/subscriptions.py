"""`bollard subscriptions …`: lists, shows, saves, deletes and tests outgoing webhooks, and lists their deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bollard.cli.client.documents import SUBSCRIPTIONS
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable, styled
from bollard.cli.terminal.times import minute_of

if TYPE_CHECKING:
    from rich.text import Text as Styled

SubscriptionId = Annotated[str, typer.Argument(metavar="ID", help="subscriptions.id")]
_STYLES: Final = {"sent": "green", "failed": "red"}


def subscription_lines(subscription: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a subscription."""
    yield text("subscriptions.head", subscription=subscription["subscription_id"])
    yield text("subscriptions.url", url=printable(subscription["url"]))
    if "proxy" in subscription:
        yield text("subscriptions.through", proxy=printable(subscription["proxy"]))
    for name in ("types", "agents", "conversations", "sources"):
        if subscription[name]:
            yield text(f"subscriptions.only.{name}", names=printable(", ".join(subscription[name])))
    yield text("subscriptions.enabled", answer=text.yes_or_no(subscription["enabled"]))
    if "problem" in subscription:
        yield text("subscriptions.problem", problem=printable(text.quote(subscription["problem"])))


def _saved_lines(subscription: dict[str, Any], text: Text) -> Iterator[str]:
    saved = {"subscription": subscription["subscription_id"], "revision": subscription["revision"]}
    yield text("subscriptions.saved", **saved)
    if str(subscription["secret"]).startswith("whsec_"):  # only a new secret is shown
        yield text("subscriptions.secret", secret=subscription["secret"])


def _status(delivery: dict[str, Any], text: Text) -> Styled:
    status = delivery["status"]
    return styled(text(f"subscriptions.status.{status}"), _STYLES.get(status, ""))


app = CommandGroup("subscriptions")
app.add_list(
    SUBSCRIPTIONS,
    (
        Column("subscription", "subscription_id"),
        Column("url", "url"),
        Column("types", lambda subscription, _: ", ".join(subscription["types"])),
        Column("enabled", lambda subscription, text: text.yes_or_no(subscription["enabled"])),
    ),
    none="subscriptions.none",
)
app.add_show(SUBSCRIPTIONS, ("subscription", SubscriptionId), subscription_lines)
app.add_save(SUBSCRIPTIONS, _saved_lines)
app.add_delete(SUBSCRIPTIONS, ("subscription", SubscriptionId))


@app.command("test")
def test(shell: HostShell, subscription: SubscriptionId) -> int:
    answer = shell.post(SUBSCRIPTIONS.one(subscription, "/test"))
    if answer["delivered"]:
        return shell.tell(answer, shell.text("subscriptions.delivered", subscription=subscription))
    shell.tell(answer, shell.text("subscriptions.undelivered", reason=printable(shell.text.quote(answer["reason"]))))
    return 1


_DELIVERIES: Final = (
    Column("created", lambda delivery, _: minute_of(delivery["created_at"])),
    Column("type", "type"),
    Column("webhook", "webhook_id"),
    Column("status", _status),
    Column("attempts", lambda delivery, _: str(delivery["attempts"])),
    Column("reason", lambda delivery, text: text.quote(delivery["reason"] or "")),
)


@app.command("deliveries")
def deliveries(
    shell: HostShell,
    subscription: SubscriptionId,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="subscriptions.limit")] = 20,
) -> int:
    page = shell.get(SUBSCRIPTIONS.one(subscription, "/deliveries"), limit=limit)
    return shell.show_items(page, "subscriptions", _DELIVERIES, none="subscriptions.nothing_sent")
