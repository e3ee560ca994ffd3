"""TLS: what certificates prove, on both ends of a connection."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from tests.broker.peers import configured, connected, eventually, on_loop
from tidings.broker.configuration import TLS
from tidings.broker.server import Broker
from tidings.broker.tokens import hashed, new_token
from tidings.events import TidingsError
from tidings.protocol.requests import Refused
from tidings.protocol.wire import Welcome


class Papers:
    """An authority, and the files of a broker that it has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "authority.pem"))

    def issue(self, name: str) -> trustme.LeafCert:
        return self.authority.issue_cert("localhost", "127.0.0.1", common_name=name)

    def tls(self, name: str, *, trusts: bool) -> TLS:
        papers, key = self.issue(name), self.folder / f"{name}.key"
        certificate = self.folder / f"{name}.pem"
        papers.private_key_pem.write_to_path(str(key))
        papers.cert_chain_pems[0].write_to_path(str(certificate))
        authority = str(self.folder / "authority.pem") if trusts else None
        return TLS(str(certificate), str(key), authority)

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """A client's, perhaps with a certificate of its own."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if name is not None:
            self.issue(name).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


@on_loop
async def test_what_is_said_is_encrypted_and_tokens_still_count(
    tmp_path: Path, papers: Papers
) -> None:
    token = new_token()
    configuration = configured(
        tmp_path, f'[tokens]\ndesk = "{hashed(token)}"', tls=papers.tls("paris", trusts=False)
    )
    async with Broker(configuration) as broker:
        async with connected(broker, trust=papers.context()) as peer:
            await peer.attach("ann", token=token)
            await peer.subscribe("n > 0")
            await peer.published(1, {"n": 1})
            assert await peer.deliveries(1) == [{"n": 1}]
        async with connected(broker, trust=papers.context()) as peer:
            assert isinstance(await peer.greet("ann"), Refused)


@on_loop
async def test_a_certificate_says_who_a_client_is(tmp_path: Path, papers: Papers) -> None:
    async with (
        Broker(configured(tmp_path, tls=papers.tls("paris", trusts=True))) as broker,
        connected(broker, trust=papers.context("desk-7")) as peer,
    ):
        assert isinstance(await peer.greet("ann"), Welcome)
        assert [session.partition("#")[0] for session in broker.host.sessions] == ["desk-7/ann"]


@on_loop
async def test_without_a_certificate_nobody_comes_in_unless_tokens_are_known(
    tmp_path: Path, papers: Papers
) -> None:
    tls, token = papers.tls("paris", trusts=True), new_token()
    async with (
        Broker(configured(tmp_path, tls=tls)) as broker,
        connected(broker, trust=papers.context()) as peer,
    ):
        try:
            assert await peer.greet("ann") is None
        except OSError:  # TLS says so itself, or only hangs up: it depends on who was faster
            assert not broker.host.sessions
    tokens = f'[tokens]\ndesk = "{hashed(token)}"'
    async with (
        Broker(configured(tmp_path, tokens, tls=tls)) as broker,
        connected(broker, trust=papers.context()) as peer,
        connected(broker, trust=papers.context()) as nobody,
    ):
        assert isinstance(await peer.greet("ann", token=token), Welcome)
        refused = await nobody.greet("ann")
        assert isinstance(refused, Refused)
        assert "a token or a client certificate" in refused.reason


@pytest.mark.parametrize("name", ["", "a/b"])
@on_loop
async def test_a_certificate_without_a_usable_name_is_refused(
    tmp_path: Path, papers: Papers, name: str
) -> None:
    context = papers.context()
    papers.authority.issue_cert("x@example.org", common_name=name or None).configure_cert(context)
    async with (
        Broker(configured(tmp_path, tls=papers.tls("paris", trusts=True))) as broker,
        connected(broker, trust=context) as peer,
    ):
        refused = await peer.greet("ann")
        assert isinstance(refused, Refused)
        assert "no common name" in refused.reason


@on_loop
async def test_somebody_who_talks_plainly_to_a_port_with_tls_harms_nobody(
    tmp_path: Path, papers: Papers
) -> None:
    async with Broker(configured(tmp_path, tls=papers.tls("paris", trusts=True))) as broker:
        async with connected(broker) as peer:
            peer.writer.write(b"hello?\r\n\r\n" * 10)
            with suppress(ConnectionResetError):
                await peer.reader.read()  # until it hangs up
        async with connected(broker, trust=papers.context("ann")) as peer:
            assert isinstance(await peer.greet("ann"), Welcome)


@on_loop
async def test_brokers_prove_their_names_by_certificates(tmp_path: Path, papers: Papers) -> None:
    quick = "[routing]\nbeat = 0.1\nsilence = 0.5\n"
    london = Broker(
        configured(
            tmp_path,
            quick + "[neighbours]\nparis = {}\n",
            name="london",
            tls=papers.tls("london", trusts=True),
        )
    )
    async with london:
        text = f'{quick}[neighbours]\nlondon = {{address = "{london.address}", tls = true}}\n'
        for name in ("rome", "paris"):
            tls = papers.tls(name, trusts=True)
            async with Broker(configured(tmp_path, text, name="paris", tls=tls)) as paris:
                if name == "rome":
                    await eventually(lambda: london.metrics.refused)
                    assert not london.links.is_up("paris")
                else:
                    await eventually(lambda: london.links.is_up("paris"))
                    await eventually(lambda paris=paris: paris.status().links[0].is_in_tree)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": "nowhere.key"}, "cannot read nowhere.key"),
        ({"authority": "nowhere.pem"}, "cannot read nowhere.pem"),
        ({"certificate": __file__}, "no certificate and its key"),
        ({"authority": __file__}, "no certificate of an authority"),
    ],
    ids=["key", "authority", "no-certificate", "no-authority"],
)
@on_loop
async def test_certificates_that_cannot_be_used_are_told_at_start(
    tmp_path: Path, papers: Papers, change: dict[str, str], reason: str
) -> None:
    usual = papers.tls("paris", trusts=True)
    fields = {f: getattr(usual, f) for f in ("certificate", "key", "authority")}
    configuration = configured(tmp_path, tls=TLS(**{**fields, **change}))
    with pytest.raises(TidingsError, match=reason):
        await Broker(configuration).start()
