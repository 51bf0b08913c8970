"""Bills one model call: reserves the budget, measures the call, settles the reservation and writes one record."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from bollard.host.actions.budgets import Cost, Reservation
from bollard.host.agents.policies import BudgetPolicy
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import HostError
from bollard.host.models.calls import ModelCaller
from bollard.host.models.pacing import ModelPace
from bollard.host.models.pricing import CallCost, added, cost_of, guess_text, spent_of
from bollard.host.models.registry import RegisteredModel
from bollard.host.models.specs import provider_of
from bollard.host.run_api.models import ModelPorts
from bollard.host.runs.live_run import LiveRun
from bollard.host.telemetry.counts import ModelCalled
from bollard.host.telemetry.tracer import model_span
from bollard.protocol import JsonObject, Message, MessageChunk, Usage

# --- payers: a run, or the workspace for calls outside of runs ---


class Payer(Protocol):
    """The payer of one call."""

    asker: ModelCaller
    closing: set[Callable[[], None]]
    """A context that is cancelled when records of this payer can no longer be written."""

    @property
    def is_late(self) -> bool:
        """Whether the payer has ended."""
        ...

    def reserve(self, amount: Cost) -> Reservation:
        """Raises `BudgetExceeded`."""
        ...

    def note(self, kind: str, data: JsonObject, called: ModelCalled, spent: CallCost) -> None:
        """Write the record of the call."""
        ...


class RunPayer:
    """Charges a run: the budgets of run, agent, actor and workspace, and the run's ledger, totals and trace."""

    def __init__(self, run: LiveRun, ports: ModelPorts) -> None:
        self._run = run
        self._ports = ports
        self._span = None if run.span is None else ports.tracer.under(run.span.context)
        self.asker = ModelCaller(workspace=run.facts.workspace, by=f"run:{run.facts.run_id}")
        self.closing = run.closing

    @property
    def is_late(self) -> bool:
        return self._run.left_s <= 0

    def reserve(self, amount: Cost) -> Reservation:
        session = self._run.session
        return self._ports.budgets.reserve(session.context, session.policy.budget, amount)

    def note(self, kind: str, data: JsonObject, called: ModelCalled, spent: CallCost) -> None:
        if self._span is not None:
            name, attributes = model_span(self._run.facts, called)
            self._ports.tracer.end(self._span, name, "client", attributes, called.reason)
        if called.status != "refused":
            data = {**data, "run_usage": added(self._run.state.usage, spent)}
        self._run.note(kind, data, pressing=False)


class WorkspacePayer:
    """Charges a workspace: its budget, and a record in its log that names the caller."""

    is_late = False

    def __init__(self, asker: ModelCaller, ports: ModelPorts) -> None:
        self._ports = ports
        self.asker = asker
        self.closing = set[Callable[[], None]]()

    def reserve(self, amount: Cost) -> Reservation:
        nobody = CallContext(run_id="", workspace=self.asker.workspace, agent_id="")
        return self._ports.budgets.reserve(nobody, BudgetPolicy(), amount)

    def note(self, kind: str, data: JsonObject, called: ModelCalled, spent: CallCost) -> None:
        del called, spent
        if self._ports.gateway.ledger is not None:
            self._ports.gateway.ledger.write(self.asker.workspace, kind, {**data, "by": self.asker.by})


Said = TypeVar("Said", Message, MessageChunk)
Operation = Literal["invoke", "stream", "rerank", "embed"]
Status = Literal["completed", "failed", "cancelled", "refused"]
"""`refused`: by this host, before the call."""


class BilledCall:
    """Measures one call. It ends once; later calls of `end` are ignored."""

    def __init__(
        self, payer: Payer, known: RegisteredModel, operation: Operation, sent: int, ports: ModelPorts
    ) -> None:
        self._payer = payer
        self._known = known
        self._operation: Operation = operation
        self._sent = sent
        self._ports = ports
        self._started = ports.clock.monotonic()
        self._pace: ModelPace | None = None
        self._first: float | None = None
        self._usage: Usage | None = None
        self._cached = 0
        self._said = 0
        """Estimated tokens of the answer so far."""
        self._over = False
        self.reserved: Reservation | None = None

    def begin(self, pace: ModelPace) -> None:
        """The call has its slot and may cost something from now on."""
        self._pace = pace

    def heard(self, chunk: MessageChunk) -> None:
        if self._first is None:
            self._first = self._ports.clock.monotonic()
        if isinstance(chunk.content, str):
            self._said += guess_text(chunk.content)
        if chunk.reasoning:
            self._said += guess_text(chunk.reasoning)
        for call in chunk.tool_calls or ():
            if call.function is not None:
                self._said += guess_text(call.function.arguments or "")
        if chunk.usage is not None:
            self._usage = chunk.usage
            self._cached = _cached(chunk.metadata)

    def answered(self, message: Message) -> None:
        if isinstance(message.content, str):
            self._said += guess_text(message.content)
        self._said += guess_text(message.reasoning or "")
        self._said += sum(guess_text(call.function.arguments) for call in message.tool_calls or ())
        self._usage, self._cached = message.usage, _cached(message.metadata)

    def priced(self, result: Said) -> Said:
        """Add the cost to the metadata, if known, so that a runner can keep its own limits."""
        price, usage = self._known.spec.price, result.usage
        if price is None or usage is None:
            return result
        cost = cost_of(price, usage.prompt_tokens or 0, usage.completion_tokens or 0, _cached(result.metadata))
        return result.model_copy(update={"metadata": {**(result.metadata or {}), "cost": cost}})

    def fail(self, error: HostError) -> None:
        reason = error.details.get("reason")
        self.end("refused" if self._pace is None else "failed", reason if isinstance(reason, str) else error.code)

    def cut(self) -> None:
        """The caller is gone, or the time limit is reached."""
        late = self._payer.is_late
        self.end("failed" if late else "cancelled", "deadline" if late else None)

    def end(self, status: Status, reason: str | None = None) -> None:
        if self._over:
            return
        self._over = True
        now = self._ports.clock.monotonic()
        spent = self._spent(status)
        if self.reserved is not None:
            self.reserved.settle(
                Cost()
                if self._pace is None
                else Cost(calls=1, tokens=spent.tokens, cost=spent.cost or 0.0, time_s=now - self._started)
            )
        if self._pace is not None:
            self._pace.settle(self._sent, spent.tokens)
        called = self._called(status, reason, spent, now)
        self._ports.counts.count(called)
        self._payer.note("model.called", self._data(called, spent), called, spent)

    def _spent(self, status: Status) -> CallCost:
        """A call without an answer is free; the cost of an aborted answer is estimated from the part that arrived."""
        nothing = self._pace is None or (status == "failed" and self._first is None and self._usage is None)
        prompt = 0 if nothing else self._sent
        return spent_of(
            Usage(prompt_tokens=0, completion_tokens=0) if nothing else self._usage,
            self._known.spec.price,
            prompt=prompt,
            completion=self._said,
            cached=self._cached,
        )

    def _called(self, status: Status, reason: str | None, spent: CallCost, now: float) -> ModelCalled:
        usage = self._usage
        return ModelCalled(
            model_id=self._known.alias_of or self._known.model_id,
            provider=provider_of(self._known.spec),
            model=self._known.spec.model,
            operation=self._operation,
            status=status,
            reason=reason,
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            completion_tokens=None if usage is None else usage.completion_tokens,
            guessed_tokens=(spent.prompt_tokens, spent.completion_tokens),
            cost=spent.cost,
            currency=spent.currency,
            latency_s=now - self._started,
            first_token_s=None if self._first is None else self._first - self._started,
        )

    def _data(self, called: ModelCalled, spent: CallCost) -> JsonObject:
        data: JsonObject = {
            "model_id": self._known.model_id,
            "provider": called.provider,
            "model": called.model,
            "operation": called.operation,
            "status": called.status,
            "latency_ms": round(called.latency_s * 1000, 1),
            "estimated": spent.estimated,
            "usage": {
                "prompt_tokens": spent.prompt_tokens,
                "completion_tokens": spent.completion_tokens,
                "total_tokens": spent.tokens,
            },
        }
        if self._known.alias_of is not None:
            data["alias_of"] = self._known.alias_of
        if called.reason is not None:
            data["reason"] = called.reason
        if spent.cost is not None:
            data |= {"cost": round(spent.cost, 10), "currency": spent.currency}
        if called.first_token_s is not None:
            data["first_token_ms"] = round(called.first_token_s * 1000, 1)
        return data


def _cached(metadata: JsonObject | None) -> int:
    """Prompt tokens from the provider's cache, if reported."""
    cached = None if metadata is None else metadata.get("cached_tokens")
    return cached if isinstance(cached, int) and not isinstance(cached, bool) else 0
