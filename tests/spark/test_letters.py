"""Dead letters: whole, once they have their name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path
from typing import Any

from tidings.events import Notification
from tidings.spark.letters import DeadLetters


def letters(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_there_is_no_file_without_any(tmp_path: Path) -> None:
    with DeadLetters(str(tmp_path / "dead"), "a.jsonl"):
        pass
    assert not (tmp_path / "dead").exists()


def test_numbers_that_json_lacks_are_written_in_words(tmp_path: Path) -> None:
    content = {"price": nan, "range": {"to": [inf, 1.5]}, "low": -inf, "raw": b"\x01"}
    with DeadLetters(str(tmp_path), "a.jsonl") as kept:
        kept.add({"row": 7}, "no number", content)
    (letter,) = letters(tmp_path / "a.jsonl")
    assert letter == {
        "row": 7,
        "reason": "no number",
        "content": {"price": "nan", "range": {"to": ["inf", 1.5]}, "low": "-inf", "raw": "AQ=="},
    }


def test_a_notification_is_an_object_and_comes_back_from_it(tmp_path: Path) -> None:
    values = {"n": 2**70, "of": {"a", 1}, "at": datetime(2026, 11, 15, tzinfo=UTC), "up": inf}
    said = Notification({**values, "raw": b"\x01", "deep": [[1]], "order.size": 0.1})
    with DeadLetters(str(tmp_path), "a.jsonl") as kept:
        kept.add({"row": 7}, "refused", said)
    (letter,) = letters(tmp_path / "a.jsonl")
    assert letter["content"]["order.size"] == 0.1
    assert Notification.from_json(json.dumps(letter["content"])) == said


def test_two_who_write_the_same_letters_do_not_disturb_each_other(tmp_path: Path) -> None:
    first, second = (DeadLetters(str(tmp_path), "a.jsonl") for _ in range(2))
    first.add({"row": 1}, "first", "x" * 100)
    second.add({"row": 1}, "second", "x")
    first.add({"row": 2}, "first", "x")
    second.close()
    assert [letter["reason"] for letter in letters(tmp_path / "a.jsonl")] == ["second"]
    first.close()
    assert [letter["row"] for letter in letters(tmp_path / "a.jsonl")] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_letters_of_who_failed_stay_beside_those_of_who_did_not(tmp_path: Path) -> None:
    with DeadLetters(str(tmp_path), "a.jsonl") as whole:
        whole.add({"row": 1}, "r", "x")
        whole.add({"row": 2}, "r", "y")
    part = DeadLetters(str(tmp_path), "a.jsonl")
    part.add({"row": 1}, "r", "x")
    part.__exit__(OSError, OSError("gone"), None)
    assert [letter["row"] for letter in letters(tmp_path / "a.jsonl")] == [1, 2]
    (other,) = set(tmp_path.glob("*.jsonl")) - {tmp_path / "a.jsonl"}
    assert [letter["row"] for letter in letters(other)] == [1]
