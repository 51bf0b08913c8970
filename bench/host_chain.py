"""How fast the hash chain of a log is verified, in this process."""

import time

from figures import Figure, median

from bollard.trust import ChainedRecord, Header, genesis, link, sha256_of, verify_chain

__all__ = ["chain_verify"]

RECORDS = 50_000
DATA = b'{"message":{"role":"assistant","content":"FINAL-ANSWER of about the length that answers have"}}'


def _chain() -> list[ChainedRecord]:
    records: list[ChainedRecord] = []
    tip = genesis("default", "bench")
    for position in range(1, RECORDS + 1):
        run, seq = divmod(position, 6)
        data = DATA[:-1] + b',"n":%d}' % position
        header = Header(
            "default", "bench", position, f"run_{run:027x}", seq, 1, seq, "message.completed", False,
            1_700_000_000_000 + position, sha256_of(data),
        )  # fmt: skip
        tip = link(tip, header)
        records.append(ChainedRecord(header, data, tip))
    return records


def chain_verify(*, passes: int) -> Figure:
    records = _chain()
    rates: list[float] = []
    for _ in range(passes):
        started = time.perf_counter()
        report = verify_chain("default", "bench", records)
        rates.append(RECORDS / (time.perf_counter() - started))
        if report.fault is not None or report.records != RECORDS:
            raise RuntimeError(f"the chain does not verify: {report}")
    return Figure(
        figure="chain verify", value=median(rates), unit="records/s", better="higher", must=200_000, aim=300_000
    )
