"""For whom a model is called: whose budgets pay, as whom its key is taken, and where its one record goes. A run, or the
workspace, where somebody asks outside of every run."""

from collections.abc import Callable
from typing import Protocol

from bollard.host.actions.budgets import Amount, Reservation
from bollard.host.agents.policies import BudgetPolicy
from bollard.host.capabilities.sources import CallContext
from bollard.host.models.calling import Asker
from bollard.host.models.pricing import Spent, added
from bollard.host.runapi.models import ModelPorts
from bollard.host.runs.live import LiveRun
from bollard.host.telemetry.counts import ModelCalled
from bollard.host.telemetry.gen_ai import model_span
from bollard.protocol import JsonObject

__all__ = ["Payer", "RunPayer", "WorkspacePayer"]


class Payer(Protocol):
    """Of one call."""

    asker: Asker
    closing: set[Callable[[], None]]
    """Whoever is in it is told when nothing can be written for this payer any more."""

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        ...

    def reserve(self, amount: Amount) -> Reservation:
        """Raises `BudgetExceeded`."""
        ...

    def note(self, kind: str, data: JsonObject, called: ModelCalled, spent: Spent) -> None:
        """The call is over: this is its record."""
        ...


class RunPayer:
    """A run: its budgets and those of its agent, its actor and its workspace; its ledger, its sum, its trace."""

    def __init__(self, run: LiveRun, ports: ModelPorts) -> None:
        self._run = run
        self._ports = ports
        self._span = None if run.span is None else ports.tracer.under(run.span.context)
        self.asker = Asker(workspace=run.facts.workspace, by=f"run:{run.facts.run_id}")
        self.closing = run.closing

    @property
    def is_late(self) -> bool:
        return self._run.left_s <= 0

    def reserve(self, amount: Amount) -> Reservation:
        session = self._run.session
        return self._ports.budgets.reserve(session.context, session.policy.budget, amount)

    def note(self, kind: str, data: JsonObject, called: ModelCalled, spent: Spent) -> None:
        if self._span is not None:
            name, attributes = model_span(self._run.facts, called)
            self._ports.tracer.end(self._span, name, "client", attributes, called.reason)
        if called.status != "refused":
            data = {**data, "run_usage": added(self._run.state.usage, spent)}
        self._run.note(kind, data, pressing=False)


class WorkspacePayer:
    """A workspace: its budget alone, and a record of its own log that says who asked."""

    is_late = False

    def __init__(self, asker: Asker, ports: ModelPorts) -> None:
        self._ports = ports
        self.asker = asker
        self.closing = set[Callable[[], None]]()

    def reserve(self, amount: Amount) -> Reservation:
        nobody = CallContext(run_id="", workspace=self.asker.workspace, agent_id="")
        return self._ports.budgets.reserve(nobody, BudgetPolicy(), amount)

    def note(self, kind: str, data: JsonObject, called: ModelCalled, spent: Spent) -> None:
        del called, spent
        if self._ports.desk.ledger is not None:
            self._ports.desk.ledger.write(self.asker.workspace, kind, {**data, "by": self.asker.by})
