"""`python -m bench [NAME …] [--quick | --full] [--out DIR]`."""

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path

BENCHMARKS = {
    "filters": "from text to canonical filters",
    "matching": "events against 1k to 1M filters, beside other engines",
    "anatomy": "where the time of one match goes",
    "routing": "one filter comes and goes, or is watched, in tables of 1k and 100k",
    "simulation": "messages per second in a tree of 100 brokers",
    "spark_match": "events of a lake against 10k to 1M filters, beside a join",
    "archive": "events per second from a broker's log into a lake",
    "deliver": "seconds from publication to delivery, for bulk subscriptions",
    "throughput": "events per second of one broker on one core",
    "peers": "what a wanted event costs, beside Mosquitto, NATS and RabbitMQ",
    "acknowledging": "what acknowledging costs, told later and awaited",
    "latency": "through chains of brokers, beside Gryphon's of 2006",
    "subscriptions": "what an event costs a broker with 1k to 1M of them",
}
"""A Java stays as it was started, whatever a later session asks for. So the one where Java itself
does much comes before those that want a Java which starts soon."""
BROKERS = ("throughput", "acknowledging", "peers", "latency", "subscriptions")
"""These are in `bench.broker`, and have a longer form."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Benchmarks: " + "; ".join(f"{n} ({what})" for n, what in BENCHMARKS.items()),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones to run; default: all")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="a glance: small sizes, few events")
    length.add_argument(
        "--full", action="store_true", help="of " + ", ".join(BROKERS) + ": more, and larger"
    )
    default = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=default, metavar="DIR", help="for the results")
    parser.add_argument(
        "--only", action="append", metavar="WORKLOAD", help="of matching and routing: not all"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - BENCHMARKS.keys()
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # after ending what was started
    wrong = 0
    for name in arguments.names or BENCHMARKS:
        options = {"only": arguments.only} if name in ("matching", "routing") else {}
        if name in BROKERS:
            options = {"full": arguments.full}
        place = "bench.broker" if name in BROKERS else "bench"
        run = import_module(f"{place}.{name}").run
        wrong += run(quick=arguments.quick, out=arguments.out, **options)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
