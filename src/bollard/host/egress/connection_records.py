"""Writes the connections of workers to the journal, as `worker.connection` records."""

from collections.abc import Callable

import structlog

from bollard.host.clock import Clock
from bollard.host.egress.connection_log import ConnectionSum
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data

_log = structlog.get_logger("bollard.host.egress")


def connection_recorder(journal: Journal, clock: Clock) -> Callable[[ConnectionSum], None]:
    """Record each sum, without waiting for the journal."""

    def record(found: ConnectionSum) -> None:
        data = encode_data(
            {
                "plugin": found.client.plugin,
                "host": found.host,
                "port": found.port,
                "outcome": found.outcome,
                "count": found.count,
                "sent_bytes": found.sent,
                "received_bytes": found.received,
            }
        )
        entry = NewRecord(
            workspace=found.client.workspace, type="worker.connection", data=data, created_ms=clock.now_ms()
        )
        try:
            journal.append(Entry(records=[entry], size=len(data), urgent=False))
        except HostError as error:
            _log.warning("a connection was not recorded", plugin=found.client.plugin, problem=error.message)

    return record
