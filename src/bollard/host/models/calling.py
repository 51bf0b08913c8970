"""Asks models: finds the backend of one, gives it its key at the last moment, keeps to its pace. Knows no runs, and no
budgets: whoever keeps account of calls is connected to it."""

import asyncio
import importlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol, cast

import msgspec
from msgspec.structs import replace

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, ModelFailed, NotFound
from bollard.host.log.shelf import Saved
from bollard.host.models.book import KnownModel, ModelBook
from bollard.host.models.boundary import ModelBackend, ModelSpec
from bollard.host.models.ledger import WorkspaceLedger
from bollard.host.models.limits import BACKENDS_OPEN, KEYS_KEPT
from bollard.host.models.pacing import Pace
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import SecretNote
from bollard.protocol import MessageChunk

__all__ = ["Accounts", "Asker", "ModelDesk", "ModelKeys", "OpenBackend", "Place", "open_backend"]

OpenBackend = Callable[[ModelSpec], ModelBackend]


def open_backend(spec: ModelSpec) -> ModelBackend:
    """By name, because only a host that asks a model needs what speaks to providers, and most hosts are idle."""
    module, name = ("demo", "DemoBackend") if spec.style == "demo" else ("backends", "open_backend")
    return cast("OpenBackend", getattr(importlib.import_module(f"bollard.host.models.{module}"), name))(spec)


class ModelKeys(Protocol):
    """Where keys are kept; the vault is one."""

    def find(self, workspace: str, name: str) -> Saved[SecretNote] | None: ...

    async def use(self, workspace: str, name: str, *, purpose: str, by: str) -> str: ...


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a model is asked."""

    workspace: str
    by: str
    """As the use of its key is written down: `run:…`, `user:…`."""


def _nobody_counts(chunk: MessageChunk) -> None:
    del chunk


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What one call is made with."""

    known: KnownModel
    backend: ModelBackend
    key: str | None
    pace: Pace
    heard: Callable[[MessageChunk], None] = _nobody_counts
    """Told of each piece of an answer by whoever streams it: what was used is in the last one."""


class Accounts(Protocol):
    """Keeps account of calls: sets aside what one may cost, measures it, and writes it down when it has ended."""

    def asked(self, asker: Asker, model_id: str, tokens: int, most: int) -> AbstractAsyncContextManager[Place]: ...


class _Open:
    """A backend in use, and how it is paced."""

    def __init__(self, spec: ModelSpec, backend: ModelBackend, clock: Clock) -> None:
        self.spec = spec
        self.backend = backend
        self.pace = Pace(spec, clock)
        self.calls = 0
        self.stale = False


class ModelDesk:
    """One per host."""

    def __init__(
        self,
        book: ModelBook,
        keys: ModelKeys,
        redactor: Redactor,
        clock: Clock,
        opens: OpenBackend = open_backend,
        *,
        ledger: WorkspaceLedger | None = None,
    ) -> None:
        """`ledger` is for calls that no run makes."""
        self.book: Final = book
        self.ledger: Final = ledger
        self._keys = keys
        self._redactor = redactor
        self._clock = clock
        self._opens = opens
        self._accounts: Accounts | None = None
        self._open: OrderedDict[tuple[str, str], _Open] = OrderedDict()
        self._given: OrderedDict[tuple[str, str, str, int], str] = OrderedDict()
        """Keys by workspace, asker, secret and its revision: that a run was given one is written down once."""
        self._closing: set[asyncio.Task[None]] = set()

    def connect(self, accounts: Accounts) -> None:
        """Who keeps account of the calls that are made here; budgets are there later than models."""
        self._accounts = accounts

    def place(self, asker: Asker, model_id: str, tokens: int, most: int = 0) -> AbstractAsyncContextManager[Place]:
        """Everything for one call that sends about so many tokens and gets at `most` so many back, where that is known.
        It is paid for and written down. Raises what `unpaid` raises, and `BudgetExceeded`."""
        if self._accounts is None:
            return self.unpaid(asker, model_id, tokens)
        return self._accounts.asked(asker, model_id, tokens, most)

    @asynccontextmanager
    async def unpaid(self, asker: Asker, model_id: str, tokens: int) -> AsyncGenerator[Place]:
        """The same for who keeps account of it, and for nobody else. Raises `NotFound`, `Overloaded`, `ModelFailed`
        where its key cannot be had, and `AuditUnavailable` where that it was handed out cannot be written down."""
        known = self.book.get(asker.workspace, model_id)
        entry = self._entry(asker.workspace, known)
        entry.calls += 1
        try:
            async with entry.pace.place(tokens):
                key = await self._key(asker, known)
                yield Place(known=known, backend=entry.backend, key=key, pace=entry.pace)
        finally:
            entry.calls -= 1
            if entry.stale and not entry.calls:
                self._end(entry)

    def forget(self, asker: Asker) -> None:
        """Who asked is gone, and so are the keys that were kept for it."""
        for each in [each for each in self._given if each[:2] == (asker.workspace, asker.by)]:
            del self._given[each]

    async def close(self) -> None:
        for entry in self._open.values():
            self._end(entry)
        self._open.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _entry(self, workspace: str, known: KnownModel) -> _Open:
        """The backend of a model as it is now. One that changed gets another; who asks the old one ends with it."""
        model_id = known.alias_of or known.model_id
        spec = replace(known.spec, model_id=model_id)
        # What everybody shares is opened once, and paced together.
        place = ("" if known.origin != "saved" else workspace, model_id)
        entry = self._open.get(place)
        if entry is None or entry.spec != spec:
            if entry is not None:
                self._retire(entry)
            entry = self._open[place] = _Open(spec, self._opens(spec), self._clock)
        self._open.move_to_end(place)
        while len(self._open) > BACKENDS_OPEN:
            self._retire(self._open.popitem(last=False)[1])
        return entry

    async def _key(self, asker: Asker, known: KnownModel) -> str | None:
        if known.key is not None:
            self._redactor.add(asker.workspace, known.key)
        if known.key is not None or known.spec.secret is None:
            return known.key
        saved = self._keys.find(asker.workspace, known.spec.secret)
        place = (asker.workspace, asker.by, known.spec.secret, 0 if saved is None else saved.revision)
        if place not in self._given:
            purpose = f"model:{known.alias_of or known.model_id}"
            try:
                key = await self._keys.use(asker.workspace, known.spec.secret, purpose=purpose, by=asker.by)
            except (NotFound, Conflict) as error:
                raise ModelFailed(
                    f"the key of the model {known.model_id} cannot be had",
                    hint=error.hint,
                    reason="unauthorized",
                    emitted=False,
                ) from error
            self._redactor.add(asker.workspace, key)
            self._given[place] = key
        self._given.move_to_end(place)
        while len(self._given) > KEYS_KEPT:
            self._given.popitem(last=False)
        return self._given[place]

    def _retire(self, entry: _Open) -> None:
        entry.stale = True
        if not entry.calls:
            self._end(entry)

    def _end(self, entry: _Open) -> None:
        task = asyncio.create_task(entry.backend.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
