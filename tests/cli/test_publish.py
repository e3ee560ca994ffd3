"""What `tidings publish` makes of its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings import TidingsError
from tidings.cli.publish import _single


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ('{"a": {"b": 1}}', "attribute 'a': attributes beside a body of bytes are scalars"),
        ('{"$body": {"type": "a/b", "base64": "AA=="}}', "the event has bytes of its own"),
    ],
)
def test_an_event_beside_content_has_attributes_alone(
    event: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "cat.gif").write_bytes(b"GIF89a")
    with pytest.raises(TidingsError, match=reason):
        _single(event, tmp_path / "cat.gif", "image/gif")


def test_content_is_published_with_the_attributes_of_the_event(tmp_path: Path) -> None:
    (tmp_path / "cat.gif").write_bytes(b"GIF89a")
    found = _single('{"subject": "cat", "tags": ["b", "a"]}', tmp_path / "cat.gif", "image/gif")
    assert found is not None
    assert (found.body, found.content_type, found["subject"]) == (b"GIF89a", "image/gif", "cat")
    assert found["tags"] == {"a", "b"}
