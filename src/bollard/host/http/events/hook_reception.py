"""Receives the requests of webhook routes: verifies them, makes their events, and builds the answers.

A request that no route verifies gets the same answer whether the route exists or not. The owner of the route finds the
reason in its deliveries.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.errors import HostError, RateExceeded, Unauthenticated
from bollard.host.events.acceptance import Accepted
from bollard.host.hooks.deliveries import HookDelivery, Outcome
from bollard.host.hooks.hook import Hook
from bollard.host.hooks.limits import HOOK_BYTES
from bollard.host.hooks.mapping import MappedEvent
from bollard.host.hooks.registry import HookRepository, HookTraffic
from bollard.host.hooks.verifiers import Verdict, Verification, sole_headers
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.edge import PROXIED
from bollard.host.http.events.hook_answers import HookAnswers
from bollard.host.http.events.hook_requests import HookEvent, HookRequest, read_hook_event
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.http.events.reception import EventReception
from bollard.host.http.guard import Rates, Unlimited
from bollard.host.http.request_log import traceparent_of
from bollard.host.log.saved_resources import Saved

_MINUTE_S: Final = 60


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A route that a request may be meant for, and the proof of the request."""

    saved: Saved[Hook]
    traffic: HookTraffic
    proof: Verification

    def verdict(self, size: int) -> Verdict | Literal["too_large"]:
        """Of a body of this size."""
        return "too_large" if size > self.saved.value.max_bytes else self.proof.verdict()


class HookReception:
    """Turns requests of webhook routes into events."""

    def __init__(
        self,
        *,
        repository: HookRepository,
        taking: EventReception,
        payloads: Payloads,
        answers: HookAnswers,
        clock: Clock,
        strangers: Rates | None = None,
    ) -> None:
        """`strangers` limit addresses whose requests are not verified."""
        self._repository = repository
        self._taking = taking
        self._payloads = payloads
        self._answers = answers
        self._clock = clock
        self._strangers = strangers or Unlimited()

    async def receive(self, request: Request, route: str) -> Response:
        """The proof of the request says which workspace is meant: a route of this name there has the secret."""
        headers = sole_headers(request.scope["headers"])
        now_s, proxied = self._clock.now_ms() / 1000, bool(request.scope.get(PROXIED))
        attempts = [
            Attempt(
                saved=saved,
                traffic=self._repository.traffic(saved),
                proof=Verification(saved.value.verifier, saved.value.secret or "", headers, now_s, proxied=proxied),
            )
            for saved in self._repository.named(route)
        ]
        # An unknown route reads the body too, so that an early answer does not tell that it is unknown. More than that
        # is read only for headers that may turn out to be a proof.
        limit = max(HOOK_BYTES, *(each.saved.value.max_bytes for each in attempts if each.proof.is_open), 0)
        size = 0

        def seen(piece: bytes) -> None:
            nonlocal size
            size += len(piece)
            if size > limit:
                self._refuse(attempts, size)
                raise self._stranger(request)
            for each in attempts:
                each.proof.update(piece)

        async with self._payloads.received(request, seen, f"hook:{route}", again=True) as payload:
            verified = next((each for each in attempts if each.verdict(size) == "verified"), None)
            if verified is None:
                self._refuse(attempts, size)
                raise self._stranger(request)
            query = dict(request.query_params)
            sent = HookRequest(headers=headers, query=query, traceparent=traceparent_of(request))
            outcome = await self._take(verified.saved, verified.traffic, sent, payload)
        # Outside of the block: an answer may wait for a run, and a large body must not stay meanwhile.
        return await self._answer(verified.saved.value, verified.traffic, outcome)

    def _refuse(self, attempts: Sequence[Attempt], size: int) -> None:
        for each in attempts:
            self._note(each.traffic, "refused", size, reason=each.verdict(size))

    async def read(self, hook: Hook, sent: HookRequest, payload: Payload) -> HookEvent:
        """The event of a request. Raises `InvalidRequest`."""
        return await read_hook_event(hook, sent, payload, self._payloads)

    async def take(self, saved: Saved[Hook], sent: HookRequest, payload: Payload) -> Response:
        """Accept a request that needs no proof, because the host signed it itself, and answer it."""
        traffic = self._repository.traffic(saved)
        return await self._answer(saved.value, traffic, await self._take(saved, traffic, sent, payload))

    async def _take(
        self, saved: Saved[Hook], traffic: HookTraffic, sent: HookRequest, payload: Payload
    ) -> Accepted | Response:
        """Accept a verified request. Its event is on disk when this returns, or the answer says that it is none."""
        hook, size, mapped = saved.value, payload.size, None
        try:
            self._check_rate(traffic)
            found = await self.read(hook, sent, payload)
            mapped = found.mapped
            if found.handshake is not None:
                self._note(traffic, "handshake", size, mapped)
                return Response(found.handshake, media_type="text/plain")
            if hook.topics and mapped.topic not in hook.topics:
                self._note(traffic, "ignored", size, mapped, reason="topic")
                return JsonAnswer({"ignored": True, "topic": mapped.topic}, status_code=202)
            accepted = await self._taking.take(found.incoming(hook, saved.workspace, payload, sent), payload)
        except HostError as error:
            self._note(traffic, "failed", size, mapped, reason=error.reason)
            raise
        self._note(traffic, "accepted" if accepted.first else "repeated", size, mapped, accepted)
        return accepted

    async def _answer(self, hook: Hook, traffic: HookTraffic, outcome: Accepted | Response) -> Response:
        return outcome if isinstance(outcome, Response) else await self._answers.of(hook.answer, outcome, traffic)

    def _check_rate(self, traffic: HookTraffic) -> None:
        rate = traffic.rate
        wait_s = rate.take("", self._clock.monotonic())
        if wait_s is not None:
            raise RateExceeded(
                f"the route accepts {rate.limit_per_minute} requests in a minute",
                reason="hook_rate",
                hint="wait as long as Retry-After says, or raise requests_per_minute of the route",
                retry_after_s=round(wait_s, 3),
                limit=rate.limit_per_minute,
                window_s=_MINUTE_S,
                whose="hook",
            )

    def _note(
        self,
        traffic: HookTraffic,
        outcome: Outcome,
        size: int,
        mapped: MappedEvent | None = None,
        accepted: Accepted | None = None,
        *,
        reason: str | None = None,
    ) -> None:
        if accepted is not None and accepted.reason is not None:
            reason = accepted.reason.code
        traffic.deliveries.add(
            HookDelivery(
                received_ms=self._clock.now_ms(),
                outcome=outcome,
                size_bytes=size,
                reason=reason,
                topic=None if mapped is None else mapped.topic,
                message_id=None if mapped is None else mapped.message_id,
                event_id=None if accepted is None else accepted.event_id,
                run_id=None if accepted is None else accepted.run_id,
            )
        )

    def _stranger(self, request: Request) -> HostError:
        """The error of a request that no route verifies; after many of them, a rate limit."""
        client = request.client
        return self._strangers.take("" if client is None else client.host) or Unauthenticated(
            "no webhook route verifies this request",
            reason="hook_unverified",
            hint="look at the name of the route, its secret, the clock and the size; `bollard hooks deliveries` says "
            "more",
        )
