"""`scripts/bench SUITE [--quick] [--json]`: prints every figure of a suite; exits 1 when a must is missed."""

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import wire
from figures import print_figures

SUITES = {"wire": wire.measure}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--quick", action="store_true", help="fewer passes; ends within 60 s")
    parser.add_argument("--json", action="store_true", help="one JSON line per figure")
    arguments = parser.parse_args()
    if not arguments.json:
        print(f"bench {arguments.suite}: measuring, floors and figures interleaved …", file=sys.stderr, flush=True)
    figures = asyncio.run(SUITES[arguments.suite](quick=arguments.quick))
    return 0 if print_figures(figures, as_json=arguments.json) else 1


if __name__ == "__main__":
    sys.exit(main())
