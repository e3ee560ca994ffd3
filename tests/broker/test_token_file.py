"""The file of tokens: what is known, when it is read, and whose connections end."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.broker.peers import Peer, configured, connected, eventually, on_loop
from tidings.broker.configuration import load_tokens
from tidings.broker.server import Broker
from tidings.broker.token_file import TokenFile
from tidings.broker.tokens import hashed, new_token
from tidings.events import TidingsError
from tidings.protocol.requests import Accepted, Attach, Refused
from tidings.protocol.wire import ACCESS, Welcome


def time_in(seconds: float) -> str:
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"


def write(file: Path, **tokens: str) -> None:
    """Replace the file as a whole, as an operator should."""
    lines = [f"{name} = {known}\n" for name, known in tokens.items()]
    new = file.with_suffix(".new")
    new.write_text("[tokens]\n" + "".join(lines))
    new.replace(file)


def quoted(token: str) -> str:
    return f'"{hashed(token)}"'


# -- reading it --------------------------------------------------------------------------------


def test_a_principal_may_have_several_tokens_some_of_which_expire(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    old, new = new_token(), new_token()
    write(file, desk=f"[{quoted(old)}, {{hash = {quoted(new)}, until = 1970-01-01T00:01:40Z}}]")
    tokens = load_tokens(str(file))
    kept, dated = tokens.find(old), tokens.find(new)
    assert kept is not None
    assert dated is not None
    assert (kept.principal, dated.principal) == ("desk", "desk")
    assert kept.expired(1e12) is None
    assert dated.expired(99.9) is None
    assert "expired at 1970-01-01T00:01:40Z" in (dated.expired(100.0) or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("desk = 'sha256:x'", "line 1: there is no key 'desk'; there are tokens"),
        ("[tokens]\ndesk = 'secret'", "line 2: this is no hash of a token"),
        ("[tokens]\ndesk = ['secret']", "line 2: this is no hash of a token"),
        (f"[tokens]\n'a/b' = '{hashed('x')}'", "line 2: the name of whoever has a token"),
        ("[tokens]\ndesk = {hash = 'x', unti = 1}", "line 2: there is no key 'unti' (did you mean"),
        ("[tokens]\ndesk = {until = 2026-12-19T12:00:00Z}", "line 2: `hash` is missing"),
        (
            f"[tokens]\ndesk = {{hash = '{hashed('x')}', until = 2026-12-19T12:00:00}}",
            "line 2: tokens.desk.until: expected a time with its zone, like 2026-12-19T12:00:00Z",
        ),
        (
            f"[tokens]\ndesk = {{hash = '{hashed('x')}', until = 2026-12-19}}",
            "line 2: tokens.desk.until: expected a time with its zone",
        ),
        ("[tokens\n", "line 1"),
    ],
)
def test_a_mistake_in_it_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(TidingsError) as told:
        load_tokens(str(file))
    assert str(told.value).startswith(f"{file}, line")
    assert said in str(told.value)


def test_it_is_seen_from_the_configuration_and_must_be_there(tmp_path: Path) -> None:
    configuration = configured(tmp_path, 'tokens = "tokens.toml"', listen="0.0.0.0:0")
    assert configuration.token_file == "tokens.toml"
    with pytest.raises(TidingsError, match=r"cannot read tokens\.toml: No such file"):
        TokenFile(configuration)


def test_it_is_read_once_it_has_stood_unchanged(tmp_path: Path) -> None:
    file, token = tmp_path / "tokens.toml", new_token()
    write(file)
    found = TokenFile(configured(tmp_path, f'tokens = "{file}"'))
    assert len(found.tokens() or ()) == 0

    def is_known() -> bool:
        tokens = found.tokens()
        return tokens is not None and tokens.find(token) is not None

    with open(file, "w") as half_written:
        half_written.write("[tokens]\n")
        half_written.flush()
        found.look()
        half_written.write(f"desk = {quoted(token)}\n")
    found.look()
    assert not is_known()
    found.look()
    assert is_known()
    file.write_text("[tokens]\ndesk = 'secret'\n")
    found.look()
    found.look()
    assert is_known()
    assert "the tokens that were known before still hold" in (found.trouble or "")
    file.unlink()
    found.look()
    found.look()
    assert is_known()
    assert "No such file" in (found.trouble or "")
    write(file)
    found.look()
    found.look()
    assert not is_known()
    assert found.trouble is None


# -- what it does ------------------------------------------------------------------------------


async def ended(peer: Peer) -> Refused:
    """Why the broker has hung up."""
    *_, last = await peer.rest()
    assert isinstance(last, Refused)
    return last


@on_loop
async def test_a_token_that_is_removed_ends_its_sessions_and_no_others(tmp_path: Path) -> None:
    file, old, new = tmp_path / "tokens.toml", new_token(), new_token()
    write(file, desk=f"[{quoted(old)}, {quoted(new)}]")
    async with (
        Broker(configured(tmp_path, f'tokens = "{file}"', name="paris")) as paris,
        connected(paris) as leaving,
        connected(paris) as staying,
        connected(paris) as back,
    ):
        await leaving.attach("leaving", token=old)
        await staying.attach("staying", token=new)
        await leaving.subscribe("n > 0")
        await leaving.published(1, {"n": 1})
        write(file, desk=quoted(new))
        refused = await ended(leaving)
        assert refused.id == ACCESS
        assert refused.reason == "the token of desk that was shown is not valid any longer"
        await eventually(lambda: len(paris.host.sessions) == 1)
        await staying.subscribe("n > 0")
        await staying.published(1, {"n": 2})
        assert await staying.deliveries(1) == [{"n": 2}]
        answer = await back.greet("back", token=old)
        assert isinstance(answer, Refused)
        assert answer.reason == "paris does not know this token"


@on_loop
async def test_a_token_that_goes_to_another_principal_ends_its_sessions(tmp_path: Path) -> None:
    file, token = tmp_path / "tokens.toml", new_token()
    write(file, desk=quoted(token))
    async with (
        Broker(configured(tmp_path, f'tokens = "{file}"')) as broker,
        connected(broker) as peer,
    ):
        await peer.attach("ann", token=token)
        write(file, lab=quoted(token))
        assert (await ended(peer)).id == ACCESS


@on_loop
async def test_a_token_ends_its_sessions_when_it_expires_and_what_was_said_is_kept(
    tmp_path: Path,
) -> None:
    token = new_token()
    text = f"[tokens]\ndesk = {{hash = {quoted(token)}, until = {time_in(2)}}}\n"
    async with Broker(configured(tmp_path, text, name="paris")) as paris:
        async with connected(paris) as peer:
            assert isinstance(await peer.greet("ann", token=token), Welcome)
            peer.say(Attach())
            accepted, number = 0, 1
            while True:
                peer.publish(number, {"n": number})
                message = await peer.hear()
                if isinstance(message, Refused):
                    break
                if isinstance(message, Accepted) and message.id == "publish":
                    accepted, number = message.number, message.number + 1
            assert message.id == ACCESS
            assert message.reason.startswith("this token of desk expired at ")
            assert paris.host.last == accepted > 0
        async with connected(paris) as peer:
            answer = await peer.greet("ann", token=token)
            assert isinstance(answer, Refused)
            assert "expired at" in answer.reason


@on_loop
async def test_what_cannot_be_read_is_shown_as_a_warning(tmp_path: Path) -> None:
    file, token = tmp_path / "tokens.toml", new_token()
    write(file, desk=quoted(token))
    async with (
        Broker(configured(tmp_path, f'tokens = "{file}"')) as broker,
        connected(broker) as peer,
    ):
        os.truncate(file, 5)
        await eventually(lambda: broker.status().warnings)
        [warning] = broker.status().warnings
        assert warning.startswith(f"{file}, line 1")
        await peer.attach("ann", token=token)


@on_loop
async def test_a_neighbour_whose_token_is_removed_is_let_in_by_another(tmp_path: Path) -> None:
    """Old and new overlap at the one that is dialled; the dialler's file has the new one."""
    file, shown = tmp_path / "tokens.toml", tmp_path / "london.token"
    old, new = new_token(), new_token()
    write(file, london=f"[{quoted(old)}, {quoted(new)}]")
    shown.write_text(old + "\n")
    quick = "[routing]\nbeat = 0.1\nsilence = 0.5\n[neighbours]\n"
    lets_in = f'tokens = "{file}"\n{quick}london = {{}}\n'
    async with Broker(configured(tmp_path, lets_in, name="paris")) as paris:
        place = f'{{address = "{paris.address}", own_token_file = "{shown}"}}'
        async with Broker(configured(tmp_path, f"{quick}paris = {place}\n", name="london")):
            await eventually(lambda: paris.links.is_up("london"))
            write(file, london=quoted(new))
            await eventually(lambda: not paris.links.is_up("london"))
            shown.write_text(new + "\n")
            await eventually(lambda: paris.links.is_up("london"))
