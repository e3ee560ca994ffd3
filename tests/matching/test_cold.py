"""A cold process: plain Python answers while the kernels are being compiled, and rightly so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_BEGIN = """
from tidings.events import Filter, Notification
from tidings.matching import Index, warm

texts = ["x = {n}", "x < {n}", "s = 's{n}'", "s LIKE '%{n}' OR x > {n}", "t CONTAINS 's{n}'"]
filters = [Filter.parse(texts[n % 5].format(n=n)) for n in range(1_000)]
events = [
    Notification({"x": 500, "s": "s742", "t": ["s744", "s44"]}),
    Notification({"x": 995}),
    Notification({}),
]
expected = [[n for n, f in enumerate(filters) if f.matches(event)] for event in events]
index = Index()
"""

COLD = (
    _BEGIN
    + """
index.add_many(list(enumerate(filters))[:600])
for n, filter_ in list(enumerate(filters))[600:]:
    index.add(n, filter_)
first = [sorted(index.match(event)) for event in events]
index.replace(0, Filter.all())
index.remove(0)
index.add(0, filters[0])
assert not warm.is_ready(), "the answers came from the kernels"
assert first == expected, first
assert index.explain()["segments"] == []
"""
)
THEN_WARM = """
rows, keys = index.match_batch(events)
assert warm.is_ready(), "a batch waits for the kernels"
assert len(index.explain()["segments"]) == 1, "it is laid out now"
assert sorted(zip(rows.to_pylist(), keys.to_pylist())) == [
    (row, key) for row, keys in enumerate(expected) for key in keys
]
assert [sorted(index.match(event)) for event in events] == expected
print("done")
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_a_cold_process_answers_before_its_kernels_are_there_and_the_same_after(
    tmp_path: Path,
) -> None:
    assert run(COLD + THEN_WARM, NUMBA_CACHE_DIR=str(tmp_path)) == "done\n"
    assert list(tmp_path.rglob("*.nbc")), "the next process finds them compiled"


@pytest.mark.slow
def test_a_process_may_end_while_its_kernels_are_being_compiled(tmp_path: Path) -> None:
    assert run(COLD + "print('done')", NUMBA_CACHE_DIR=str(tmp_path)) == "done\n"


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("where a directory should be")
    warm_too = _BEGIN + "index.add_many(enumerate(filters))\n" + THEN_WARM
    assert run(warm_too, NUMBA_CACHE_DIR=str(file / "below")) == "done\n"


@pytest.mark.slow
def test_kernels_work_where_nothing_at_all_can_be_written() -> None:
    """As with a read-only file system: numba then finds no place to keep what it compiles."""
    read_only = """
import numba.core.caching as caching
def refuse(*_):
    raise PermissionError("read-only")
for locator in list(vars(caching).values()):
    if isinstance(locator, type) and hasattr(locator, "ensure_cache_path"):
        locator.ensure_cache_path = refuse
"""
    code = read_only + _BEGIN + "index.add_many(enumerate(filters))\n" + THEN_WARM
    assert run(code) == "done\n"
