"""Rate and concurrency limits per identity, and per address for clients without a token. In memory."""

from typing import Final

from bollard.host.agents.rates import Rates
from bollard.host.clock import Clock
from bollard.host.errors import HostError, Overloaded, RateExceeded
from bollard.host.exposure import client_network
from bollard.host.limits import STRANGER_REQUESTS_PER_MINUTE

_BURST: Final = 6
"""The burst is one sixth of the requests per minute."""
_MINUTE_S: Final = 60


class IdentityRates:
    """A token bucket for each name."""

    def __init__(self, clock: Clock, per_minute: int, burst: int, *, whose: str = "identity") -> None:
        """`whose` names the kind of bucket in errors and in the `RateLimit` headers."""
        self._clock = clock
        self._rates: Rates[str] = Rates(per_minute, burst)
        self._whose = whose

    def take(self, name: str) -> HostError | None:
        """Count one request; returns the error when the limit is reached."""
        wait_s = self._rates.take(name, self._clock.monotonic())
        if wait_s is None:
            return None
        limit = self._rates.limit_per_minute
        return RateExceeded(
            f"more than {limit} requests in a minute",
            reason="request_rate",
            hint="wait as long as Retry-After says, or ask less often",
            retry_after_s=round(wait_s, 3),
            limit=limit,
            window_s=_MINUTE_S,
            whose=self._whose,
        )


def identity_rates(clock: Clock, per_minute: int) -> IdentityRates:
    """Limits for callers with a token."""
    return IdentityRates(clock, per_minute, max(1, per_minute // _BURST))


class _AddressRates(IdentityRates):
    """Counts all addresses of one client network together."""

    def take(self, name: str) -> HostError | None:
        return super().take(client_network(name))


def stranger_rates(clock: Clock) -> IdentityRates:
    """Limits for clients without a valid token, per address."""
    return _AddressRates(clock, STRANGER_REQUESTS_PER_MINUTE, STRANGER_REQUESTS_PER_MINUTE // 2, whose="address")


class ConcurrencyLimit:
    """Counts the open requests of each name, with streams and sockets."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[str, int] = {}

    @property
    def names(self) -> int:
        """Number of names with open requests."""
        return len(self._open)

    def enter(self, name: str) -> HostError | None:
        """Open one request, or return the error when too many are open. Every `enter` that returns nothing is followed
        by one `leave`."""
        count = self._open.get(name, 0)
        if count >= self._limit:
            return Overloaded(
                f"{self._limit} requests are open already",
                reason="open_requests",
                hint="close a stream before you open another",
                limit=self._limit,
            )
        self._open[name] = count + 1
        return None

    def leave(self, name: str) -> None:
        left = self._open[name] - 1
        if left:
            self._open[name] = left
        else:
            del self._open[name]
