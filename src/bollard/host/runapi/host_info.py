"""`host.info`: the host's version and the limits that a runner can count on."""

from bollard.host.runs.live import LiveRun
from bollard.protocol import HostInfo, HostInfoQuery, JsonObject, limits

__all__ = ["HostFacts"]


class HostFacts:
    """Says what the host is. No secret is among it, so that every run may ask."""

    def __init__(self, host_version: str) -> None:
        self._host_version = host_version

    async def info(self, run: LiveRun, params: HostInfoQuery) -> HostInfo:
        del params
        granted = run.grant.limits
        found: JsonObject = {
            "calls_in_flight": granted.calls_in_flight,
            "calls_per_s": granted.calls_per_s,
            "call_bytes": granted.payload_bytes,
            "page_items": limits.PAGE_ITEMS,
            "page_bytes": limits.PAGE_BYTES,
            "search_top_k": limits.SEARCH_TOP_K,
            "read_bytes": limits.READ_BYTES,
            "result_bytes": limits.RESULT_BYTES,
            "state_value_bytes": limits.STATE_VALUE_BYTES,
            "state_scope_bytes": limits.STATE_SCOPE_BYTES,
        }
        if granted.calls_per_run is not None:
            found["calls_per_run"] = granted.calls_per_run
        return HostInfo(host_version=self._host_version, protocol=limits.PROTOCOL_VERSION, limits=found)
