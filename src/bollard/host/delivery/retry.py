"""The waits between the attempts of a delivery. Pure."""

from bollard.host.limits import DELIVERY_ATTEMPTS, DELIVERY_RETRY_AFTER_S, DELIVERY_WAIT_S


def wait_before(attempts: int, retry_after_s: float | None) -> float | None:
    """Seconds before the next attempt after so many failed ones. `None` if there is no further attempt. A receiver may
    request a longer wait, up to a limit."""
    if attempts >= DELIVERY_ATTEMPTS:
        return None
    return max(DELIVERY_WAIT_S * 2 ** (attempts - 1), min(retry_after_s or 0.0, DELIVERY_RETRY_AFTER_S))
