from __future__ import annotations

import pytest

from tidings.events import TidingsError
from tidings.protocol.addresses import Address, parse_address, parse_place, parse_url


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("broker.example", Address("broker.example", 7411)),
        ("[::1]:9", Address("::1", 9)),
        ("[fe80::1%eth0]", Address("fe80::1%eth0", 7411)),
        ("::1", Address("::1", 7411)),
    ],
)
def test_a_broker_listens_at_a_host_and_a_port(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        *["", ":80", "a:", "a:b", "a:1:2", "a:-1", "a:٣", "a:65536", "a b", "a,b", "a/b"],
        *["[a]:1", "[::1", "[]", "[::1]x", "a..b", ".a", "x" * 64, "\udcff"],
    ],
)
def test_what_is_no_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(TidingsError, match=r"HOST:PORT|a port is a number"):
        parse_address(text)


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("tidings://127.0.0.1:7411", [Address("127.0.0.1", 7411)]),
        ("tidings://broker.example", [Address("broker.example", 7411)]),
        ("tidings://a:1,b:2", [Address("a", 1), Address("b", 2)]),
        ("tidings://[::1]:9,[fe80::1]/", [Address("::1", 9), Address("fe80::1", 7411)]),
    ],
)
def test_a_url_names_addresses(url: str, addresses: list[Address]) -> None:
    assert parse_url(url) == (tuple(addresses), False)
    assert parse_url(url.replace("tidings:", "tidings+tls:")) == (tuple(addresses), True)


@pytest.mark.parametrize(
    "url",
    [
        *["", "127.0.0.1:7411", "http://a", "tidings://", "tidings://a:b", "tidings://a,"],
        *["tidings://a:0", "tidings://a:65536", "tidings://::1", "tidings://user@a"],
        *["tidings://a/path", "tidings://a..b", "tidings://\udcff"],
    ],
)
def test_what_is_no_url_of_a_broker_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(TidingsError, match=r"tidings://|port"):
        parse_url(url)


def test_a_place_is_an_address_or_the_url_of_one_broker() -> None:
    for text, place in (
        ("a", "a:7411"),
        ("[::1]:9", "[::1]:9"),
        ("tidings://a", "a:7411"),
        ("tidings+tls://[::1]:9", "tidings+tls://[::1]:9"),
    ):
        assert str(parse_place(text)) == place
        assert parse_place(place) == parse_place(text)
    with pytest.raises(TidingsError, match="one broker"):
        parse_place("tidings://a,b")
