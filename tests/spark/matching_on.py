"""Matches a lake on the Spark that is named: by the function, and by the command.

    python -m tests.spark.matching_on MASTER LAKE FILTERS OUT

Prints as JSON what the function finds, with the filters in several parts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tidings.cli.match_lake import match_lake
from tidings.spark import match
from tidings.spark.sessions import session_for_python


def main(master: str, lake: str, filters: str, out: str) -> None:
    lines = Path(filters).read_text(encoding="utf-8").splitlines()
    wanted = dict(line.split("\t") for line in lines)
    with session_for_python("matching", master=master):
        rows = match(lake, wanted, memory=2_000).select("id", "matches").toArrow().to_pylist()
        found = {row["id"]: sorted(row["matches"]) for row in rows}
        match_lake(
            Path(lake), Path(filters), Path(out),
            schema_file=None, since=None, until=None, is_listed=True, master=master,
        )  # fmt: skip
    print(json.dumps(found), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
