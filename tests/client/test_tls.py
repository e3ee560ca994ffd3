from __future__ import annotations

import ssl

import pytest

from tidings.client.tls import tls_context
from tidings.events import TidingsError
from tidings.protocol.addresses import parse_url


def test_tls_is_as_the_url_says() -> None:
    given = ssl.create_default_context()
    encrypted = parse_url("tidings+tls://a")
    assert tls_context(encrypted, given) is given
    assert isinstance(tls_context(encrypted, None), ssl.SSLContext)
    assert tls_context(parse_url("tidings://a"), None) is None
    with pytest.raises(TidingsError, match=r"tidings\+tls"):
        tls_context(parse_url("tidings://a"), given)
