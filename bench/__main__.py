"""`scripts/bench SUITE [--quick] [--json]`: prints every figure of a suite; exits 1 when a must is missed."""

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import agent
import capabilities
import console_page
import messages
import sandbox
import surface
from disturbance import BUSY, Disturbance
from exclusive import AnotherBench, alone
from figures import print_measured
from host_comparison import measure_against

import host
import wire

SUITES = {
    "agent": agent.measure,
    "capabilities": capabilities.measure,
    "console": console_page.measure,
    "host": host.measure,
    "messages": messages.measure,
    "sandbox": sandbox.measure,
    "surface": surface.measure,
    "wire": wire.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--quick", action="store_true", help="fewer passes; ends within 60 s")
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    parser.add_argument("--growth", action="store_true", help="host only: the cost of a run by the length of the log")
    parser.add_argument(
        "--against", action="append", type=Path, metavar="TREE", help="host only: CPU per run, beside that of this tree"
    )
    arguments = parser.parse_args()
    if arguments.growth and arguments.suite != "host":
        parser.error("--growth belongs to the suite host")
    if arguments.against and arguments.suite != "host":
        parser.error("--against belongs to the suite host")
    measure = host.measure_growth if arguments.growth else SUITES[arguments.suite]
    if arguments.against:
        measure = partial(measure_against, [tree.resolve() for tree in arguments.against])
    if not arguments.json:
        print(f"bench {arguments.suite}: measuring, floors and figures interleaved …", file=sys.stderr, flush=True)
    try:
        with alone():
            disturbance = Disturbance.start()
            measured = asyncio.run(measure(quick=arguments.quick))
    except AnotherBench as error:
        print(f"bench: {error}\nhint: wait until it is done; two would measure each other", file=sys.stderr)
        return 2
    if (share := disturbance.share()) > BUSY:
        print(f"bench: other processes used {share:.0%} of the machine meanwhile; ratios suffer", file=sys.stderr)
    return 0 if print_measured(measured, as_json=arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())
