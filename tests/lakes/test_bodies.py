"""Bodies: a lake gives back exactly what was published, whatever columns it has by then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.lakes.published import PUBLISHED
from tidings import Filter, Notification
from tidings.events.values import PRESENT
from tidings.lakes import files
from tidings.lakes.filling import rows_to_table, to_table
from tidings.lakes.lake import Lake
from tidings.lakes.layout import BODY, FIXED, Archived, to_events
from tidings.protocol.messages import Event
from tidings.protocol.runs import pack, rows_of, unpack_rows

BEGIN = datetime(2026, 11, 15, 23, 59, 58, tzinfo=UTC)


def numbered(batches: Sequence[Sequence[Notification]]) -> list[list[Archived]]:
    ticks = count(1)
    return [
        [Archived("paris", t := next(ticks), BEGIN + timedelta(seconds=t), said) for said in batch]
        for batch in batches
    ]


def said(*texts: str) -> list[Notification]:
    return list(map(Notification.from_json, texts))


def exactly(events: Sequence[Archived]) -> Iterator[tuple[object, ...]]:
    """What must be the same: also the text of the attributes beside bytes, and their order."""
    for event in events:
        found = event.notification
        yield event.id, event.time, found, found.body, found.content_type, found.to_json()


BATCHES = st.lists(st.lists(PUBLISHED, min_size=1, max_size=5), min_size=1, max_size=4)


@settings(max_examples=min(40, settings.default.max_examples))
@given(BATCHES)
@example([said('{"b":1,"a":2}'), said('{"a":2,"b":1}', '{"c":1,"a":1}')])
@example([said('{"a":1.5}', '{"a":-9}'), said('{"a":-9}'), said('{"a":9007199254740993}')])
def test_a_lake_gives_back_what_was_published(batches: list[list[Notification]]) -> None:
    with TemporaryDirectory() as folder:
        lake = Lake(folder)
        written = numbered(batches)
        for version, batch in enumerate(written, start=1):
            assert lake.append(batch, writer="test", version=version)
        together = list(exactly([event for batch in written for event in batch]))
        assert list(exactly(list(lake.events()))) == together
        lake.compact()
        assert list(exactly(list(Lake(folder).events()))) == together


@settings(max_examples=min(40, settings.default.max_examples))
@given(BATCHES)
def test_records_of_a_log_become_rows_that_say_the_same(batches: list[list[Notification]]) -> None:
    schema = FIXED
    for batch in numbered(batches):
        events = [Event("paris", e.tick, e.notification, False, e.time.timestamp()) for e in batch]
        table = rows_to_table("paris", unpack_rows(pack(events)), schema)
        for rows in (table, rows_to_table("paris", rows_of(events), schema)):
            found = list(exactly(list(to_events(rows))))
            assert [e[2:] for e in found] == [e[2:] for e in exactly(batch)]
        schema = table.schema


def bodies(table: pa.Table) -> list[str | None]:
    return table[BODY].to_pylist()  # type: ignore[no-any-return]


def test_a_body_is_kept_only_where_columns_do_not_say_it() -> None:
    flat = said('{"a":1,"b":"x","t":["p","q"]}', '{"a":2,"t":[]}', '{"b":"y"}')
    (first,) = numbered([flat])
    table = to_table(first, FIXED)
    assert bodies(table) == [None, None, None]
    (more,) = numbered([said('{"b":"x","a":1}', '{"a":1.5}', '{"a":1,"new":2}', '{"x":1,"b":""}')])
    later = to_table(more, table.schema)
    assert bodies(later) == ['{"b":"x","a":1}', None, None, '{"x":1,"b":""}']
    (numbers,) = numbered([said('{"p":1.5}', '{"p":1}', '{"p":null}', '{"b":"x","p":{"a":1}}')])
    mixed = to_table(numbers, FIXED)
    assert bodies(mixed) == [None, '{"p":1}', '{"p":null}', '{"b":"x","p":{"a":1}}']
    (large,) = numbered([said('{"p":1.5}', f'{{"p":{2**53 + 1}}}', '{"p":1}')])
    assert bodies(to_table(large, FIXED)) == [None, None, '{"p":1}']


def test_what_is_in_the_rest_comes_last_and_needs_no_body_there() -> None:
    big = 2**70
    (batch,) = numbered([said(f'{{"a":1,"n":{big}}}', f'{{"n":{big},"a":1}}', '{"a":1,"n":5}')])
    assert bodies(to_table(batch, FIXED)) == [None, f'{{"n":{big},"a":1}}', None]


def test_a_body_of_bytes_is_text_that_any_reader_of_json_can_look_into() -> None:
    gif = Notification.of_bytes(b"GIF89a", "image/gif", {"width": 1, "scale": 2.5})
    bent = Notification.of_bytes(b"GIF89a", "image/gif", {"scale": 2})
    (batch,) = numbered([[gif, bent]])
    assert bodies(to_table(batch, FIXED)) == [
        '{"$body":{"type":"image/gif","base64":"R0lGODlh"}}',
        '{"scale":2,"$body":{"type":"image/gif","base64":"R0lGODlh"}}',
    ]


def test_a_body_whose_attributes_are_other_ones_comes_back_as_it_is() -> None:
    """Nobody looks whether a client has computed attributes from the body that it sends."""
    odd = b'{"a":{"b":1},"a.b":2,"c":"\\"$body\\":{\\"type\\":","$body":{"type":"","n":[1]}}'
    (batch,) = numbered([[Notification.of_canonical({"x": 1, "y": PRESENT}, odd)]])
    (found,) = to_events(to_table(batch, FIXED))
    assert (found.notification.body, found.notification.content_type) == (odd, "application/json")
    assert found.notification.attributes == {"x": 1, "y": PRESENT}


def test_columns_that_two_have_made_in_another_order_are_written_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    schema = lake.schema()
    (one, other) = numbered([said('{"a":1,"b":2}'), said('{"b":2,"a":1}')])
    both = [files.write(lake.path, to_table(batch, schema), schema) for batch in (one, other)]
    assert lake.admit(both) == both[1:]
    both[1].discard(lake.path)
    again = files.write(lake.path, to_table(other, lake.schema()), lake.schema())
    assert lake.admit([again]) == []
    lake.commit([both[0], again], "test", 1, held={"paris": 2})
    assert list(exactly(list(lake.events()))) == list(exactly([*one, *other]))


def test_a_file_that_relies_on_columns_of_another_one_is_written_again_too(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    known = lake.schema()
    tables = [to_table(b, known) for b in numbered([said('{"b":1,"a":2}'), said('{"a":1}')])]
    other, first = (files.write(lake.path, table, known) for table in tables)
    (last,) = numbered([said('{"a":1,"b":2}')])
    second = files.write(lake.path, to_table(last, tables[1].schema), tables[1].schema)
    assert lake.admit([other, first, second]) == [second]


TEXTS = [
    "EXISTS data", "NOT EXISTS data", "EXISTS data.n", "data = 1", "NOT (data = 1)", "data != 1",
    "data IS NUMBER", "data IS NOT SET", "EXISTS legs AND data.n > 1", "data CONTAINS 'a'",
    "NOT EXISTS legs OR data = TRUE", "EXISTS `x y`", "NOT EXISTS `x y`", "data = 'x' OR data = 2",
]  # fmt: skip
OBJECTS_AND_OTHERS = said(
    '{"data":{"n":1}}', '{"data":{"n":2},"legs":[{"n":1}]}', '{"data":{}}', '{"data":[[1]]}',
    '{"data":[]}', '{"data":["a"]}', '{"data":true}', '{"data":1}', '{"data":"x"}', '{"data":null}',
    '{"data":2.5,"legs":[[]]}', "{}", '{"x y":{"a":1}}', '{"x y":[[1]],"data":{"n":3}}',
    '{"x y":1}', f'{{"data":{2**70}}}',
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_an_object_is_there_for_filters_and_has_no_value(text: str, tmp_path: Path) -> None:
    wanted, lake = Filter.parse(text), Lake(tmp_path / "lake")
    events = numbered([OBJECTS_AND_OTHERS[at : at + 3] for at in range(0, 16, 3)])
    for version, batch in enumerate(events, start=1):
        lake.append(batch, writer="test", version=version)
    expected = [e for b in events for e in b if wanted.matches(e.notification)]
    assert list(lake.events(text)) == expected
    lake.compact()
    assert list(lake.events(text)) == expected


def test_files_without_an_object_are_not_read_for_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    alone = [[each] for each in OBJECTS_AND_OTHERS[:12]]  # the others have something in the rest
    for version, batch in enumerate(numbered(alone), start=1):
        lake.append(batch, writer="test", version=version)
    view = lake.snapshot()
    assert len(view.files("data.n = 2")) == 1
    assert len(view.files("EXISTS data.n")) == 2
    assert len(view.files("EXISTS legs")) == 2
