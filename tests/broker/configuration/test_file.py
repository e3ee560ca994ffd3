"""Configurations: what may be said, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.broker.configuration import Configuration
from tidings.broker.tokens import hashed, new_token
from tidings.events import TidingsError

WHOLE = f"""
name = "paris"
listen = "0.0.0.0:7411"
store = "data"
metrics = "127.0.0.1:9411"
drain = 3

[neighbours]
london = "london.example:7411"
rome = {{address = "tidings+tls://rome.example", own_token_file = "paris.token"}}
oslo = {{}}

[routing]
subscriptions = "merging"
beat = 2
silence = 9

[tls]
certificate = "paris.pem"
key = "/etc/paris.key"
client_authority = "clients.pem"
neighbour_authority = "brokers.pem"

[tokens]
desk-7 = "{hashed(new_token())}"

[limits]
connections = 500
publish_rate = 1000

[retention]
age = "7d"
size = "10GB"
"""


def test_everything_can_be_said() -> None:
    found = Configuration.parse(WHOLE, file="/etc/tidings/paris.toml")
    assert found.name == "paris"
    assert found.address.port == 7411
    assert found.store == "/etc/tidings/data"
    assert found.links["london"].address == "london.example:7411"
    assert found.links["rome"].own_token_file == "/etc/tidings/paris.token"
    assert found.links["oslo"].address is None
    assert (found.settings.subscriptions, found.settings.beat) == ("merging", 2)
    assert found.tls is not None
    assert (found.tls.certificate, found.tls.key) == ("/etc/tidings/paris.pem", "/etc/paris.key")
    assert (found.retention.seconds, found.retention.bytes) == (604_800, 10**10)
    assert found.limits.connections == 500


def test_nothing_needs_to_be_said() -> None:
    found = Configuration.parse("")
    assert str(found.address) == "127.0.0.1:7411"
    assert found.store == "tidings-store"
    assert not found.settings.at_most_once
    assert not found.settings.tree


def test_brokers_with_neighbours_agree_on_a_tree_unless_told_otherwise() -> None:
    text = 'name = "a"\n[neighbours]\nb = {}\n'
    assert Configuration.parse(text).settings.tree
    assert not Configuration.parse(text + "[routing]\ntree = false\n").settings.tree


def test_brokers_of_a_hierarchy_have_a_tree_already() -> None:
    text = 'name = "a"\n[neighbours]\nb = {role = "child"}\nc = "c:1"\n'
    found = Configuration.parse(text)
    assert {name: each.role for name, each in found.links.items()} == {"b": "child", "c": "peer"}
    assert not found.settings.tree
    assert not Configuration.parse(text + "[routing]\ntree = false\n").settings.tree


def test_what_is_given_counts_more_and_is_seen_from_where_we_are() -> None:
    text = 'listen = "0.0.0.0:1"\nstore = "a"\n'
    found = Configuration.parse(text, file="/etc/x.toml", listen="127.0.0.1:0", store="b")
    assert (found.listen, found.store) == ("127.0.0.1:0", "b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 7", "line 1: name: expected a text, got a whole number"),
        ('name = "a b"', "line 1: a broker's name is 1 to 64 letters"),
        ("name = 'paris~2'", "line 1: a broker's name is 1 to 64 letters"),
        ("\nnam = 'x'", "line 2: there is no key 'nam' (did you mean 'name'?)"),
        ("name = x", "line 1, column 8: Invalid value"),
        ('listen = "here"\nlisten = "there"\n', "line 2, column 17: Cannot overwrite a value"),
        ('# where\nlisten = "127.0.0.1:x"', "line 2: an address is HOST:PORT"),
        ('listen = "127.0.0.1:70000"', "line 1: a port is a number up to 65535"),
        ('listen = "10.0.0.1:7411"', "line 1: anybody who reaches 10.0.0.1:7411"),
        ('metrics = ":80"', "line 1: an address is HOST:PORT"),
        ('metrics = "0.0.0.0:9411"', "line 1: anybody who reaches 0.0.0.0:9411 could read"),
        ("drain = 0", "line 1: drain: expected a number > 0"),
        ("[limits]\nconnections = 'many'", "line 2: limits.connections: expected"),
        ("[limits]\n\nconections = 5", "line 3: there is no key 'conections' (did you mean"),
        ("limits = {frame = 1}", "line 1: limits.frame: expected a whole number >= 1024"),
        ("[retention]\nage = 'a while'", "line 2: expected a time above 0 like 90s"),
        ("[retention]\nsize = 0", "line 2: expected a size above 0"),
        ("[retention]\nsize = '10 gigs'", "line 2: expected a size above 0"),
        ("[tokens]\ndesk = 'secret'", "line 2: this is no hash of a token"),
        ("[tokens]\nann = 7", "line 2: tokens.ann: expected a text"),
        (f"[tokens]\n'a/b' = '{hashed('x')}'", "line 2: the name of whoever has a token"),
        ("[neighbours]\nrome = {}", "a broker with neighbours needs a name of its own"),
        ("name = 'rome'\n[neighbours]\nrome = {}", "line 3: rome is this broker itself"),
        ("name = 'a'\n[neighbours]\n'b c' = {}", "line 3: 'b c' cannot be the name"),
        ("name = 'a'\n[neighbours]\n'b~2' = {}", "line 3: 'b~2' cannot be the name"),
        ("name = 'a'\n[neighbours]\nb = 'x:y'", "line 3: an address is HOST:PORT"),
        ("name = 'a'\n[neighbours]\nb = {adress = 'x:1'}", "line 3: there is no key 'adress'"),
        (
            "name = 'a'\n[neighbours.b]\ntoken_file = 'y'",
            "line 3: there is no key 'token_file' (did you mean 'own_token_file'?)",
        ),
        ("name = 'a'\n[neighbours]\nb = 'http://x'", "line 3: 'http://x' is no broker's address"),
        ("name = 'a'\n[neighbours]\nb = 'tidings://x,y'", "line 3: this is the address of one"),
        ("name = 'a'\n[neighbours]\nb = {role = 'boss'}", "line 3: neighbours.b"),
        (
            "name = 'a'\n[neighbours]\nb = {role = 'parent'}\nc = {role = 'parent'}",
            "line 4: b and c cannot both be parents",
        ),
        (
            "name = 'a'\n[neighbours]\nb = {role = 'child'}\n[routing]\ntree = true",
            "line 5: brokers that agree on a tree have neither parent nor children",
        ),
        ("[routing]\nsubscriptions = 'magic'", "line 2: "),
        ("[routing]\nsubscription = 'simple'", "line 2: there is no key 'subscription' (did"),
        ("[routing]\nlog = false", "line 2: there is no key 'log'"),
        ("[routing]\nbeat = -1", "line 2: beat is a time above 0"),
        ("[routing]\ntree = 'yes'", "line 2: "),
        ("[tls]\nkey = 'k'", "line 1: `key` is given, and `certificate` is missing"),
        ("[tls]\nclient_authority = 'a'", "line 1: clients show certificates only to a broker"),
        (
            "[tls]\nauthority = 'a'",
            "line 2: there is no key 'authority' (did you mean 'client_authority'?); there are "
            "certificate, key, client_authority, neighbour_authority",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(TidingsError) as told:
        Configuration.parse(text, file="paris.toml")
    assert str(told.value).startswith("paris.toml")
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'store = "a"\nname = "paris\ndrain = 1\n',
            "line 2: a string has no end: a quote is missing",
        ),
        (
            "store = 'a'\nname = 'paris\ndrain = 1\n",
            "line 2: a string has no end: a quote is missing",
        ),
        ('store = "a"\nname = """paris\nrome', "line 2: a string has no end: a quote is missing"),
        ('store = "a"\nname "paris"', "line 2, column 6: Expected '='"),
        ('store = "a"\ndeliverers = [\n', "line 2: Invalid value"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(text: str, said: str) -> None:
    with pytest.raises(TidingsError) as caught:
        Configuration.parse(text)
    assert str(caught.value).startswith(f"tidings.toml, {said}")


def test_a_mistake_in_an_option_is_not_laid_to_the_file() -> None:
    with pytest.raises(TidingsError, match=r"^--listen: anybody who reaches 0\.0\.0\.0"):
        Configuration.parse('listen = "127.0.0.1:1"', listen="0.0.0.0")
    with pytest.raises(TidingsError, match=r"^--name: a broker's name"):
        Configuration.parse("", name="")


def test_tokens_or_client_certificates_allow_for_any_address() -> None:
    for more in (
        f"[tokens]\ndesk = '{hashed(new_token())}'",
        "[tls]\ncertificate = 'c'\nkey = 'k'\nclient_authority = 'a'",
    ):
        assert Configuration.parse(f"listen = '0.0.0.0:7411'\n{more}").listen == "0.0.0.0:7411"
    with pytest.raises(TidingsError, match="anybody who reaches"):
        Configuration.parse("listen = '0.0.0.0:7411'\n[tls]\ncertificate = 'c'\nkey = 'k'\n")


def test_metrics_for_other_machines_need_tokens_and_certificates_are_not_enough() -> None:
    tokens = f"[tokens]\ndesk = '{hashed(new_token())}'"
    assert Configuration.parse(f"metrics = '0.0.0.0:1'\n{tokens}").metrics == "0.0.0.0:1"
    assert Configuration.parse("metrics = 'localhost:1'").metrics == "localhost:1"
    tls = "[tls]\ncertificate = 'c'\nkey = 'k'\nclient_authority = 'a'"
    with pytest.raises(TidingsError, match="could read the numbers"):
        Configuration.parse(f"metrics = '0.0.0.0:1'\n{tls}")


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.8.8.8:1"])
def test_loopback_needs_neither(listen: str) -> None:
    assert Configuration.parse("", listen=listen).address.is_loopback


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(TidingsError, match="No such file"):
        Configuration.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TidingsError, match="UTF-8"):
        Configuration.load(tmp_path / "binary.toml")
