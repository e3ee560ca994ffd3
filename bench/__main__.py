"""`python -m bench [NAME …] [--quick] [--out DIR]`."""

import argparse
import sys
from importlib import import_module
from pathlib import Path

BENCHMARKS = {
    "filters": "from text to canonical filters",
    "matching": "events against 1k to 1M filters, beside other engines",
    "anatomy": "where the time of one match goes",
    "routing": "one filter comes and goes, in tables of 1k and 100k",
    "simulation": "messages per second in a tree of 100 brokers",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmarks: " + "; ".join(f"{n} ({what})" for n, what in BENCHMARKS.items()),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones to run; default: all")
    parser.add_argument("--quick", action="store_true", help="a glance: small sizes, few events")
    default = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=default, metavar="DIR", help="for the results")
    parser.add_argument(
        "--only", action="append", metavar="WORKLOAD", help="of matching and routing: not all"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - BENCHMARKS.keys()
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    wrong = 0
    for name in arguments.names or BENCHMARKS:
        options = {"only": arguments.only} if name in ("matching", "routing") else {}
        run = import_module(f"bench.{name}").run
        wrong += run(quick=arguments.quick, out=arguments.out, **options)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
