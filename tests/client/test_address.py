from __future__ import annotations

import ssl

import pytest

from tidings.client.address import Place, context, read_address
from tidings.events import TidingsError


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("tidings://127.0.0.1:7411", [Place("127.0.0.1", 7411)]),
        ("tidings://broker.example", [Place("broker.example", 7411)]),
        ("tidings://a:1,b:2", [Place("a", 1), Place("b", 2)]),
        ("tidings://[::1]:9,[fe80::1]/", [Place("::1", 9), Place("fe80::1", 7411)]),
    ],
)
def test_addresses(url: str, places: list[Place]) -> None:
    assert read_address(url) == (tuple(places), False)
    assert read_address(url.replace("tidings:", "tidings+tls:")) == (tuple(places), True)


@pytest.mark.parametrize(
    "url",
    [
        *["", "127.0.0.1:7411", "http://a", "tidings://", "tidings://a:b", "tidings://a,"],
        *["tidings://a:0", "tidings://a:65536", "tidings://::1", "tidings://user@a"],
        "tidings://a/path",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(TidingsError, match=r"tidings://|port"):
        read_address(url)


def test_tls_is_as_the_address_says() -> None:
    given = ssl.create_default_context()
    encrypted = read_address("tidings+tls://a")
    assert context(encrypted, given) is given
    assert isinstance(context(encrypted, None), ssl.SSLContext)
    assert context(read_address("tidings://a"), None) is None
    with pytest.raises(TidingsError, match=r"tidings\+tls"):
        context(read_address("tidings://a"), given)
