from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.conftest import PROGRAM, Run
from tidings.cli.app import app
from tidings.cli.match import arrivals

QUOTES = [
    '{"symbol": "DIS", "price": 112.4, "change": -4.0, "tags": ["media", "us"]}',
    '{ "symbol":"SAP",   "price":241.9, "change":-1.2 }',
    '{"symbol": "ASML", "price": 703.0, "change": 11.5}',
]
EVENTS = "\n".join(QUOTES) + "\n"


def match(*arguments: str, input: str | bytes = "") -> Result:
    return CliRunner().invoke(app, ["match", *arguments], input=input, catch_exceptions=False)


def test_matching_lines_are_printed_as_they_came() -> None:
    done = match("change < 0", input=EVENTS)
    assert done.stdout.splitlines() == QUOTES[:2]
    assert done.stderr == "2 of 3 events matched\n"
    assert done.exit_code == 0


def test_nothing_matched_is_exit_code_1() -> None:
    done = match("change < -100", input=EVENTS)
    assert (done.stdout, done.stderr, done.exit_code) == ("", "0 of 3 events matched\n", 1)


def test_no_events_at_all_match_nothing() -> None:
    done = match("TRUE", input="")
    assert (done.stderr, done.exit_code) == ("0 of 0 events matched\n", 1)


def test_blank_lines_and_windows_line_ends_are_no_events() -> None:
    done = match("TRUE", input=b'\n  \n{"a": 1}\r\n\r\n{"a": 2}')
    assert done.stdout_bytes == b'{"a": 1}\r\n{"a": 2}\n'
    assert done.stderr == "2 of 2 events matched\n"


def test_files_are_read_one_after_another(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_text(QUOTES[0])
    second.write_text("\n".join(QUOTES[1:]))
    done = match("change < 0", str(second), "-", str(first), input=QUOTES[2])
    assert done.stdout.splitlines() == [QUOTES[1], QUOTES[0]]
    assert done.stderr == "2 of 4 events matched\n"


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text(EVENTS)
    done = match("change < 0", str(tmp_path / "missing.jsonl"), str(tmp_path), str(there))
    assert done.stdout.splitlines() == QUOTES[:2]
    assert "missing.jsonl: No such file or directory" in done.stderr
    assert f"{tmp_path}: Is a directory" in done.stderr
    assert done.exit_code == 2


def test_cloudevents_are_read_too() -> None:
    order = json.dumps(
        {
            "specversion": "1.0",
            "id": "1",
            "source": "/shop",
            "type": "order.placed",
            "time": "2026-11-15T12:00:00Z",
            "data": {"total": 1200},
        }
    )
    wanted = "type = 'order.placed' AND data.total >= 1000 AND time > TIMESTAMP '2026-11-15'"
    assert match(wanted, input=order).stdout == order + "\n"


def test_a_schema_reads_times_and_refuses_wrong_values(tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text('[attributes]\nwhen = "time"\nsize = "integer"\n')
    events = '{"when": "2026-11-15T12:00:00Z"}\n{"when": "soon"}\n{"size": 1.5}\n'
    done = match("when > TIMESTAMP '2026-11-15'", "--schema", str(schema), input=events)
    assert done.stdout == '{"when": "2026-11-15T12:00:00Z"}\n'
    assert "line 2: attribute 'when': not a time" in done.stderr
    assert "line 3: attribute 'size' is declared integer" in done.stderr
    assert done.exit_code == 2


def test_a_filter_that_can_never_match_says_so() -> None:
    done = match("a = 1 AND a = 2", input='{"a": 1}')
    assert "this filter can never match: a = 1 excludes a = 2" in done.stderr
    assert done.exit_code == 1


@pytest.mark.parametrize("filter_text", ["", "price >", "price = 'x", "price >< 3"])
def test_a_wrong_filter_is_an_error_before_anything_is_read(filter_text: str) -> None:
    done = match(filter_text, input=EVENTS)
    assert (done.stdout, done.exit_code) == ("", 2)
    assert done.stderr.startswith("error: line 1, column ")
    assert "matched" not in done.stderr


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("not json", "not valid JSON"),
        ('{"a": 1', "not valid JSON"),
        ('{"a": 1} {"b": 2}', "not valid JSON"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": Infinity}', "not valid JSON"),
        ('{"a": 1e999}', "not valid JSON"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b"\x00", "not valid JSON"),
        ("[1, 2]", "expected a JSON object, found an array"),
        ("null", "expected a JSON object, found null"),
        ('"text"', "expected a JSON object, found a string"),
        ('{"": 1}', "non-empty string"),
        ('{"a": {"b": 1}, "a.b": 2}', "attribute 'a.b': given twice"),
        ('{"a": {"$time": "soon"}}', "attribute 'a': "),
        ('{"a": {"$bytes": "?"}}', "attribute 'a': "),
        ('{"a": {"$number": "NaN"}}', "attribute 'a': "),
        ('{"specversion": "1.0", "time": "soon"}', "attribute 'time': not an RFC 3339 time"),
        ('{"specversion": "1.0", "data": 1, "data_base64": "AA=="}', "attribute 'data': "),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 10_000 + "}", "out of range"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_no_event_is_told_with_its_number(line: str | bytes, complaint: str) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    done = match("TRUE", input=b'{"before": 1}\n' + raw + b'\n{"after": 1}\n')
    assert done.stdout.splitlines() == ['{"before": 1}', '{"after": 1}']
    first, count = done.stderr.splitlines()
    assert first.startswith("error: line 2: ")
    assert complaint in first
    assert len(first) < 400
    assert count == "2 of 3 events matched"
    assert done.exit_code == 2


def test_ten_bad_lines_are_told_and_the_others_counted() -> None:
    done = match("TRUE", input="nonsense\n" * 1234)
    complaints = done.stderr.splitlines()
    assert [c.split(":")[1] for c in complaints[:10]] == [f" line {n}" for n in range(1, 11)]
    assert complaints[10:] == [
        "error: no event was in 1,224 more lines",
        "0 of 1,234 events matched",
    ]
    assert done.exit_code == 2


def test_complaints_name_the_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n[]\n")
    assert f"error: {bad}, line 2: expected a JSON object" in match("TRUE", str(bad)).stderr


def test_large_and_odd_events_work() -> None:
    megabyte = "x" * 1_000_000
    events = [
        json.dumps({"a": 1, "text": megabyte}),
        json.dumps({"a": 1, megabyte: 1}),
        json.dumps({"a": 1, 'it\'s a "name".with `dots`..': 1}),
        json.dumps({"a": 1} | {f"a{n}": n for n in range(10_000)}),
        json.dumps({"a": 1, "list": [[1, {"b": None}], []], "none": None}),
        json.dumps({"a": 1, "big": 10**300}),
        '{"a": 1, "deep": ' + '{"b": ' * 99 + "1" + "}" * 100,
    ]
    done = match("a = 1", input="\n".join(events) + "\n")
    assert done.stderr == "7 of 7 events matched\n"
    assert done.stdout.splitlines() == events


def test_a_bad_name_of_a_megabyte_does_not_flood_the_terminal() -> None:
    done = match("TRUE", input=json.dumps({"x" * 1_000_000: {"$time": "\x1b[31m"}}))
    assert len(done.stderr) < 500
    assert "\x1b" not in done.stderr


def test_a_filter_of_a_megabyte_works() -> None:
    wanted = "`it's ``odd``. ` = '" + "x" * 1_000_000 + "'"
    event = json.dumps({"it's `odd`. ": "x" * 1_000_000})
    assert match(wanted, input=event).exit_code == 0


# -- pipes ---------------------------------------------------------------------------------------


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*PROGRAM, "match", *arguments], stdin=pipe, stdout=pipe, stderr=pipe
    )
    with process:
        try:
            yield process
        finally:
            process.kill()  # before it is waited for, which `with` does


def said(process: subprocess.Popen[bytes], line: str) -> bytes:
    """What the program prints after it was given a line, while its stdin stays open."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], 30)
    assert ready, "nothing was printed before the end of the input"
    return os.read(process.stdout.fileno(), 1 << 16)


def test_a_match_is_printed_before_more_input_comes() -> None:
    with running("change < 0") as process:
        assert said(process, QUOTES[0]) == f"{QUOTES[0]}\n".encode()
        assert said(process, f"{QUOTES[2]}\n{QUOTES[1]}") == f"{QUOTES[1]}\n".encode()
        out, err = process.communicate(timeout=30)
        assert (out, err) == (b"", b"2 of 3 events matched\n")
        assert process.returncode == 0


def test_a_line_that_comes_in_pieces_is_one_event() -> None:
    with running("a = 1") as process:
        assert process.stdin
        process.stdin.write(b'{"a"')
        process.stdin.flush()
        assert said(process, ": 1}") == b'{"a": 1}\n'
        process.communicate(timeout=30)


def test_a_reader_that_leaves_ends_the_program_quietly() -> None:
    with running("TRUE") as process:
        assert process.stdout
        assert process.stdin
        assert process.stderr
        assert said(process, QUOTES[0])
        process.stdout.close()
        process.stdin.write(EVENTS.encode())
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_head_gets_what_it_wants() -> None:
    program = " ".join(PROGRAM)
    done = subprocess.run(
        ["sh", "-c", f"yes '{QUOTES[0]}' | {program} match TRUE | head -n 2"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [QUOTES[0]] * 2
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_an_interrupt_is_quiet() -> None:
    with running("TRUE") as process:
        assert said(process, QUOTES[0])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert err.strip() == b""
        assert process.returncode == 130


@pytest.mark.parametrize(
    ("redirection", "code", "complaint"),
    [
        ("<&-", 2, "standard input: it is closed"),
        (">&-", 0, "1 of 1 event matched"),
        ("2>&-", 0, ""),
        pytest.param(
            ">/dev/full",
            2,
            "cannot write: No space left on device",
            marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full"),
        ),
    ],
)
def test_closed_and_full_streams_cause_no_traceback(
    redirection: str, code: int, complaint: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"echo '{{}}' | {{ {' '.join(PROGRAM)} match TRUE {redirection}; }}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_gets_what_it_can_show(
    tidings: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert "?" in tidings("explain", "größe > 1").stdout
    event = '{"größe": 2}\n'
    assert tidings("match", "größe > 1", input=event).stdout == event


class Trickle:
    """A stream that has only this much each time it is asked."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def read1(self, size: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@pytest.mark.parametrize(
    ("pieces", "batches"),
    [
        ([], []),
        ([b"a\nb\n"], [[b"a", b"b"]]),
        ([b"a", b"b\n", b"c"], [[b"ab"], [b"c"]]),
        ([b"a\nb", b"c", b"d\n\n"], [[b"a"], [b"bcd", b""]]),
        ([b"\n"], [[b""]]),
    ],
)
def test_lines_come_in_batches_as_they_arrive(
    pieces: list[bytes], batches: list[list[bytes]]
) -> None:
    assert list(arrivals(Trickle(*pieces))) == batches  # type: ignore[arg-type]


# -- many filters ------------------------------------------------------------------------------


def filters_file(folder: Path, text: str) -> str:
    path = folder / "filters.tsv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_many_filters_tell_which_of_them_an_event_matches(tmp_path: Path) -> None:
    filters = filters_file(tmp_path, "falling\tchange < 0\n\nprice > 200\n")
    done = match("--filters", filters, input=EVENTS)
    assert done.stdout.splitlines() == [
        f'["falling"]\t{QUOTES[0]}',
        f'[3,"falling"]\t{QUOTES[1]}',
        f"[3]\t{QUOTES[2]}",
    ]
    assert done.stderr == "3 of 3 events matched at least one of 2 filters\n4 matches in all\n"
    assert done.exit_code == 0


def test_with_many_filters_all_arguments_are_files(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(EVENTS)
    done = match("--filters", filters_file(tmp_path, "price > 1000"), str(events), "-")
    assert (done.stdout, done.exit_code) == ("", 1)


def test_every_wrong_filter_is_reported_with_its_line_and_no_event_is_read(tmp_path: Path) -> None:
    filters = filters_file(tmp_path, "a = 1\nb =\nk\tc >< 3\nk\td = 1\nk\te = 1\n")
    done = match("--filters", filters, input=EVENTS)
    assert (done.stdout, done.exit_code) == ("", 2)
    assert [line.split("filters.tsv, ")[1] for line in done.stderr.splitlines()] == [
        "line 2, column 4: expected a constant, found the end",
        "line 3, column 6: expected a constant, found '<'",
        "line 5: the key 'k' stands on another line too",
    ]


def test_a_key_that_is_not_utf8_is_a_wrong_line(tmp_path: Path) -> None:
    filters = tmp_path / "filters.tsv"
    filters.write_bytes(b"caf\xe9\tprice > 5\ncaf\xc3\xa9\tprice > 5\n")
    done = match("--filters", str(filters), input=EVENTS)
    assert (done.stdout, done.exit_code) == ("", 2)
    assert done.stderr == f"error: {filters}, line 1: the key is not UTF-8\n"


def test_a_missing_file_of_filters_is_named(tmp_path: Path) -> None:
    done = match("--filters", str(tmp_path / "nowhere"), input=EVENTS)
    assert "nowhere: No such file" in done.stderr
    assert done.exit_code == 2


def test_neither_a_filter_nor_filters_is_a_usage_error() -> None:
    done = match()
    assert "--filters" in done.stderr
    assert done.exit_code == 2


@pytest.mark.slow
def test_a_thousand_filters_agree_with_one_at_a_time(tidings: Run, tmp_path: Path) -> None:
    texts = [f"price > {n} AND symbol != 'S{n % 7}'" for n in range(2_000)]
    events = [json.dumps({"price": n * 17 % 2_500, "symbol": f"S{n % 9}"}) for n in range(300)]
    filters = filters_file(tmp_path, "\n".join(texts))
    done = tidings("match", "--filters", filters, input="\n".join(events))
    expected = sum(
        n * 17 % 2_500 > price and n % 9 != price % 7 for n in range(300) for price in range(2_000)
    )
    assert f"{expected:,} matches in all" in done.stderr
