"""The model gateway: opens backends, reads keys at the last moment, and enforces rate limits. Budgets and records of
calls belong to the connected `Accounts`."""

import asyncio
import functools
import importlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Final, Protocol, cast

import msgspec

from bollard.host.agents.saved_proxy import OwnProxy
from bollard.host.clock import Clock
from bollard.host.egress.addresses import host_problem, literal
from bollard.host.egress.client import EgressClient, Resolver, SystemResolver
from bollard.host.egress.connections import Judge
from bollard.host.egress.destination import Address, Destination
from bollard.host.egress.proxy import Route
from bollard.host.errors import Conflict, EgressDenied, ModelFailed, NotFound, UnknownName, caused_by
from bollard.host.log.saved_resources import Saved
from bollard.host.models.boundary import ModelBackend
from bollard.host.models.limits import ADDRESSES, BACKENDS_OPEN, KEYS_KEPT
from bollard.host.models.pacing import ModelPace
from bollard.host.models.pricing import WorkspaceLedger
from bollard.host.models.registry import ModelRegistry, Origin, RegisteredModel
from bollard.host.models.specs import SavedModel
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import SecretNote
from bollard.protocol import MessageChunk
from bollard.wire.addresses import carried_address

# --- addresses of providers from the environment ---
# The operator sets the environment, so such a provider may run on this machine or in this network. Link-local addresses
# (the metadata service of most clouds), unspecified and multicast addresses are denied. Providers of saved models are
# checked by the egress client instead (ADR 0094).


_REFUSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "100.100.100.200/32",  # metadata of a cloud, in the range that customers share
        "168.63.129.16/32",  # a cloud's own service for its machines, under a public address
        "169.254.0.0/16",  # link-local, the metadata of most clouds
        "192.0.0.0/24",  # protocol assignments; metadata of a cloud
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_REFUSED_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "::/128",
        "fd00:ec2::/32",  # a cloud's own services
        "fd20:ce::/32",  # the same of another one
        "fe80::/10",
        "ff00::/8",
    )
)
_HINT: Final = "set base_url to the address of the provider"


@functools.cache
def _system_resolver() -> Resolver:
    """Shared by all providers, because it has threads."""
    return SystemResolver()


async def provider_addresses(
    place: Destination, within_s: float, resolver: Callable[[], Resolver] = _system_resolver
) -> Sequence[Address]:
    """The addresses of a provider from the environment. Raises `EgressDenied` if any of them is denied."""
    if problem := host_problem(place.host):
        raise EgressDenied(problem, hint=_HINT, reason="provider_host_invalid", problem=problem)
    known = literal(place.host)
    try:
        async with asyncio.timeout(within_s):
            found = [known] if known is not None else await resolver().addresses(place.host)
    except (OSError, UnicodeError, ValueError) as error:  # includes the timeout
        why = str(getattr(error, "strerror", None) or error)
        raise UnknownName(
            f"{place.host} has no address: {why}",
            hint=_HINT,
            reason="provider_without_address",
            host=place.host,
            problem=why,
        ) from error
    for address in found:
        if problem := provider_problem(address):
            raise EgressDenied(
                f"{place.host}: {problem}",
                hint=_HINT,
                reason="provider_address_denied",
                host=place.host,
                address=str(address),
            )
    return list(found)[:ADDRESSES]


def provider_problem(address: Address) -> str | None:
    """Why this address is denied; `None` if a provider may have it."""
    if isinstance(address, IPv4Address):
        return f"{address} is not allowed for a provider" if any(address in each for each in _REFUSED_V4) else None
    if address.scope_id is not None or any(address in each for each in _REFUSED_V6):
        return f"{address} is not allowed for a provider"
    carried = carried_address(address)
    if carried is not None and provider_problem(carried) is not None:
        return f"{address} maps to {carried}, which is not allowed for a provider"
    return None


OpenBackend = Callable[[SavedModel, Judge], ModelBackend]


def open_backend(spec: SavedModel, judge: Judge) -> ModelBackend:
    """Imports the backend on first use: most hosts are idle, and their memory is measured."""
    if spec.style == "demo":
        return importlib.import_module("bollard.host.models.demo").DemoBackend(spec)
    return cast("OpenBackend", importlib.import_module("bollard.host.models.backends").open_backend)(spec, judge)


class ModelKeys(Protocol):
    """Source of keys, implemented by the vault."""

    def find(self, workspace: str, name: str, /) -> Saved[SecretNote] | None: ...

    async def use(self, workspace: str, name: str, *, purpose: str, by: str) -> str: ...


class ModelCaller(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of a model."""

    workspace: str
    by: str
    """The actor in the record of the key's use: `run:…`, `user:…`."""


def _ignore_chunk(chunk: MessageChunk) -> None:
    del chunk


class CallTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one call needs."""

    known: RegisteredModel
    backend: ModelBackend
    key: str | None
    pace: ModelPace
    heard: Callable[[MessageChunk], None] = _ignore_chunk
    """Called with each chunk of a streamed answer; the last one has the usage."""


class Accounts(Protocol):
    """Reserves the budget of a call, measures the call, and records it when it has ended."""

    def asked(
        self, asker: ModelCaller, model_id: str, tokens: int, most: int
    ) -> AbstractAsyncContextManager[CallTarget]: ...


class _Open:
    """An open backend with its rate limits."""

    def __init__(self, spec: SavedModel, backend: ModelBackend, clock: Clock) -> None:
        self.spec = spec
        self.backend = backend
        self.pace = ModelPace(spec, clock)
        self.calls = 0
        self.stale = False


class ModelGateway:
    """Gives callers a backend, a key and a slot for each model call. One per host."""

    def __init__(
        self,
        book: ModelRegistry,
        keys: ModelKeys,
        redactor: Redactor,
        clock: Clock,
        opens: OpenBackend = open_backend,
        *,
        egress: EgressClient,
        ledger: WorkspaceLedger | None = None,
    ) -> None:
        """`egress` finds the routes to providers; `ledger` records calls outside of runs."""
        self.book: Final = book
        self.ledger: Final = ledger
        self._keys = keys
        self._redactor = redactor
        self._clock = clock
        self._opens = opens
        self._egress = egress
        self._accounts: Accounts | None = None
        self._open: OrderedDict[tuple[str, str], _Open] = OrderedDict()
        self._cached_keys: OrderedDict[tuple[str, str, str, int], str] = OrderedDict()
        """Keys by workspace, caller, secret and revision, so that the use of a key is recorded once per caller."""
        self._closing: set[asyncio.Task[None]] = set()

    def connect(self, accounts: Accounts) -> None:
        """Set the accounts of calls; they are built after the gateway."""
        self._accounts = accounts

    def place(
        self, asker: ModelCaller, model_id: str, tokens: int, most: int = 0
    ) -> AbstractAsyncContextManager[CallTarget]:
        """Prepare one call that sends about `tokens` tokens and receives at most `most`. The call is charged and
        recorded. Raises what `unpaid` raises, and `BudgetExceeded`."""
        if self._accounts is None:
            return self.unpaid(asker, model_id, tokens)
        return self._accounts.asked(asker, model_id, tokens, most)

    @asynccontextmanager
    async def unpaid(self, asker: ModelCaller, model_id: str, tokens: int) -> AsyncGenerator[CallTarget]:
        """Like `place`, without charging: only for the accounts themselves. Raises `NotFound`, `Overloaded`,
        `ModelFailed` if the key is unavailable, and `AuditUnavailable` if its use cannot be recorded."""
        known = self.book.get(asker.workspace, model_id)
        if known.alias_of is not None and (missing := self.book.missing_default(asker.workspace)) is not None:
            raise ModelFailed(
                missing.sentence, hint=missing.hint, reason="no_default_model", emitted=False, **missing.details
            )
        entry = self._entry(asker.workspace, known)
        entry.calls += 1
        try:
            async with entry.pace.place(tokens):
                key = await self._key(asker, known)
                yield CallTarget(known=known, backend=entry.backend, key=key, pace=entry.pace)
        finally:
            entry.calls -= 1
            if entry.stale and not entry.calls:
                self._end(entry)

    def forget(self, asker: ModelCaller) -> None:
        """Drop the keys that were cached for this caller."""
        for each in [each for each in self._cached_keys if each[:2] == (asker.workspace, asker.by)]:
            del self._cached_keys[each]

    def drop(self, workspace: str, model_id: str) -> None:
        """Close the backend of an unsaved model."""
        if (entry := self._open.pop((workspace, model_id), None)) is not None:
            self._retire(entry)

    async def close(self) -> None:
        for entry in self._open.values():
            self._end(entry)
        self._open.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _entry(self, workspace: str, known: RegisteredModel) -> _Open:
        """The backend of a model. A changed model gets a new one; calls in progress finish on the old one."""
        model_id = known.alias_of or known.model_id
        spec = known.spec.model_copy(update={"model_id": model_id})
        # Models that all workspaces share have one backend and one set of rate limits.
        place = ("" if known.origin != "saved" else workspace, model_id)
        entry = self._open.get(place)
        if entry is None or entry.spec != spec:
            if entry is not None:
                self._retire(entry)
            judge = self._judge_of(workspace, spec, known.origin)
            entry = self._open[place] = _Open(spec, self._opens(spec, judge), self._clock)
        self._open.move_to_end(place)
        while len(self._open) > BACKENDS_OPEN:
            self._retire(self._open.popitem(last=False)[1])
        return entry

    def _judge_of(self, workspace: str, spec: SavedModel, origin: Origin) -> Judge:
        if origin != "saved":
            return functools.partial(self._egress.route, lookup=provider_addresses)
        if spec.proxy is None:
            return self._egress.judge

        own = OwnProxy(spec, self._keys, workspace, f"model:{spec.model_id}")

        async def judge(place: Destination, within_s: float) -> Sequence[Route]:
            return await self._egress.judge(place, within_s, await own.open())

        return judge

    async def _key(self, asker: ModelCaller, known: RegisteredModel) -> str | None:
        if known.key is not None:
            self._redactor.add(asker.workspace, known.key)
        if known.key is not None or known.spec.secret is None:
            return known.key
        saved = self._keys.find(asker.workspace, known.spec.secret)
        place = (asker.workspace, asker.by, known.spec.secret, 0 if saved is None else saved.revision)
        if place not in self._cached_keys:
            purpose = f"model:{known.alias_of or known.model_id}"
            try:
                key = await self._keys.use(asker.workspace, known.spec.secret, purpose=purpose, by=asker.by)
            except (NotFound, Conflict) as error:
                raise ModelFailed(
                    f"the key of the model {known.model_id} is unavailable: {error.message}",
                    hint=error.hint,
                    reason="unauthorized",
                    emitted=False,
                    **caused_by(error),
                ) from error
            self._redactor.add(asker.workspace, key)
            self._cached_keys[place] = key
        self._cached_keys.move_to_end(place)
        while len(self._cached_keys) > KEYS_KEPT:
            self._cached_keys.popitem(last=False)
        return self._cached_keys[place]

    def _retire(self, entry: _Open) -> None:
        entry.stale = True
        if not entry.calls:
            self._end(entry)

    def _end(self, entry: _Open) -> None:
        task = asyncio.create_task(entry.backend.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
