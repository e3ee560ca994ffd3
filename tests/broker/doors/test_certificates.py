"""TLS: what certificates prove, on both ends of a connection."""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from pathlib import Path

import msgspec
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
    """An authority, and the files of those whose certificates it has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.file = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str) -> trustme.LeafCert:
        return self.authority.issue_cert("localhost", "127.0.0.1", common_name=name)

    def files(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        papers, key = self.issue(name), self.folder / f"{name}.key"
        certificate = self.folder / f"{name}.pem"
        papers.private_key_pem.write_to_path(str(key))
        papers.cert_chain_pems[0].write_to_path(str(certificate))
        return certificate, key

    def tls(
        self, name: str, *, clients: Papers | None = None, neighbours: Papers | None = None
    ) -> TLS:
        """What a broker has of this authority, and whose certificates it believes."""
        certificate, key = self.files(name)
        return TLS(
            str(certificate),
            str(key),
            None if clients is None else str(clients.file),
            None if neighbours is None else str(neighbours.file),
        )

    def context(self, name: str | None = None) -> ssl.SSLContext:
        """A client's, perhaps with a certificate of its own."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if name is not None:
            self.issue(name).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The authority of the brokers."""
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    """The authority of the clients."""
    return Papers(tmp_path_factory.mktemp("desks"))


@on_loop
async def test_what_is_said_is_encrypted_and_tokens_still_count(
    tmp_path: Path, papers: Papers
) -> None:
    token = new_token()
    configuration = configured(
        tmp_path, f'[tokens]\ndesk = "{hashed(token)}"', tls=papers.tls("paris")
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
        Broker(configured(tmp_path, tls=papers.tls("paris", clients=papers))) as broker,
        connected(broker, trust=papers.context("desk-7")) as peer,
    ):
        assert isinstance(await peer.greet("ann"), Welcome)
        assert [session.partition("#")[0] for session in broker.host.sessions] == ["desk-7/ann"]


@on_loop
async def test_without_a_certificate_nobody_comes_in_unless_tokens_are_known(
    tmp_path: Path, papers: Papers
) -> None:
    tls, token = papers.tls("paris", clients=papers), new_token()
    async with (
        Broker(configured(tmp_path, tls=tls)) as broker,
        connected(broker, trust=papers.context()) as peer,
    ):
        refused = await peer.greet("ann")
        assert isinstance(refused, Refused)
        assert "lets nobody in without a client certificate" in refused.reason
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
        Broker(configured(tmp_path, tls=papers.tls("paris", clients=papers))) as broker,
        connected(broker, trust=context) as peer,
    ):
        refused = await peer.greet("ann")
        assert isinstance(refused, Refused)
        assert "no common name" in refused.reason


@on_loop
async def test_somebody_who_talks_plainly_to_a_port_with_tls_harms_nobody(
    tmp_path: Path, papers: Papers
) -> None:
    async with Broker(configured(tmp_path, tls=papers.tls("paris", clients=papers))) as broker:
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
            tls=papers.tls("london", neighbours=papers),
        )
    )
    async with london:
        text = f'{quick}[neighbours]\nlondon = "tidings+tls://{london.address}"\n'
        for name in ("rome", "paris"):
            tls = papers.tls(name, neighbours=papers)
            async with Broker(configured(tmp_path, text, name="paris", tls=tls)) as paris:
                if name == "rome":
                    await eventually(lambda: london.metrics.refused)
                    assert not london.links.is_up("paris")
                else:
                    await eventually(lambda: london.links.is_up("paris"))
                    await eventually(lambda paris=paris: paris.status().links[0].is_in_tree)


@pytest.mark.parametrize(
    ("role", "signed_by", "said"),
    [
        ("client", "desks", None),
        ("client", "papers", "of the authority of paris's neighbours"),
        ("broker", "papers", None),
        ("broker", "desks", "of its neighbour_authority; this one is of the client_authority"),
    ],
)
@on_loop
async def test_each_authority_lets_in_those_that_it_is_for(
    tmp_path: Path, papers: Papers, desks: Papers, role: str, signed_by: str, said: str | None
) -> None:
    signer = {"desks": desks, "papers": papers}[signed_by]
    context = papers.context()
    signer.issue("london").configure_cert(context)
    tls = papers.tls("paris", clients=desks, neighbours=papers)
    text = "[neighbours]\nlondon = {}\n"
    async with (
        Broker(configured(tmp_path, text, name="paris", tls=tls)) as paris,
        connected(paris, trust=context) as peer,
    ):
        answer = await peer.greet("london", role=role)
        if said is None:
            assert isinstance(answer, Welcome)
        else:
            assert isinstance(answer, Refused)
            assert said in answer.reason


@on_loop
async def test_authorities_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """Who has signed is told by the keys, whatever the certificates say."""
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    papers, desks = Papers(tmp_path / "own"), Papers(tmp_path / "other")
    desks.authority = trustme.CA(organization_name="one", organization_unit_name="and the same")
    papers.authority = trustme.CA(organization_name="one", organization_unit_name="and the same")
    for each in (papers, desks):
        each.authority.cert_pem.write_to_path(str(each.file))
    tls = papers.tls("paris", clients=desks, neighbours=papers)
    context = papers.context()
    desks.issue("london").configure_cert(context)
    text = "[neighbours]\nlondon = {}\n"
    async with (
        Broker(configured(tmp_path, text, name="paris", tls=tls)) as paris,
        connected(paris, trust=context) as peer,
    ):
        assert isinstance(await peer.greet("london", role="broker"), Refused)


@on_loop
async def test_an_authority_of_clients_lets_no_broker_in(
    tmp_path: Path, papers: Papers, desks: Papers
) -> None:
    context = papers.context()
    desks.issue("london").configure_cert(context)
    text = "[neighbours]\nlondon = {}\n"
    tls = papers.tls("paris", clients=desks)
    async with (
        Broker(configured(tmp_path, text, name="paris", tls=tls)) as paris,
        connected(paris, trust=context) as peer,
    ):
        answer = await peer.greet("london", role="broker")
        assert isinstance(answer, Refused)
        assert "needs a `neighbour_authority` under [tls]" in answer.reason


@on_loop
async def test_on_its_machine_a_broker_asks_neighbours_alone_if_it_has_only_their_authority(
    tmp_path: Path, papers: Papers
) -> None:
    tls = papers.tls("paris", neighbours=papers)
    text = "[neighbours]\nlondon = {}\n"
    async with Broker(configured(tmp_path, text, name="paris", tls=tls)) as paris:
        async with connected(paris, trust=papers.context()) as peer:
            assert isinstance(await peer.greet("ann"), Welcome)
        async with connected(paris, trust=papers.context()) as peer:
            answer = await peer.greet("london", role="broker")
            assert isinstance(answer, Refused)
            assert "lets no broker in without a token or a certificate" in answer.reason


@pytest.mark.parametrize("trusts", ["the right authority", "another", "the system"])
@on_loop
async def test_a_neighbour_that_is_dialled_must_be_of_the_authority_of_neighbours(
    tmp_path: Path,
    papers: Papers,
    desks: Papers,
    caplog: pytest.LogCaptureFixture,
    trusts: str,
) -> None:
    authority = {"the right authority": papers, "another": desks, "the system": None}[trusts]
    dialler = TLS(neighbour_authority=None if authority is None else str(authority.file))
    quick = "[routing]\nbeat = 0.1\nsilence = 0.5\n[neighbours]\n"
    with caplog.at_level(logging.WARNING, "tidings"):
        async with Broker(
            configured(tmp_path, f"{quick}paris = {{}}\n", name="london", tls=papers.tls("london"))
        ) as london:
            text = f'{quick}london = "tidings+tls://{london.address}"\n'
            async with Broker(configured(tmp_path, text, name="paris", tls=dialler)) as paris:
                assert not paris.is_encrypted
                if trusts == "the right authority":
                    await eventually(lambda: london.links.is_up("paris"))
                else:
                    await eventually(lambda: "its certificate is not to be trusted" in caplog.text)
                    assert not london.links.is_up("paris")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": "nowhere.key"}, "cannot read nowhere.key"),
        ({"client_authority": "nowhere.pem"}, "cannot read nowhere.pem"),
        ({"neighbour_authority": "nowhere.pem"}, "cannot read nowhere.pem"),
        ({"certificate": __file__}, "no certificate and its key"),
        ({"client_authority": __file__}, "no certificate of an authority"),
    ],
    ids=["key", "clients", "neighbours", "no-certificate", "no-authority"],
)
@on_loop
async def test_certificates_that_cannot_be_used_are_told_at_start(
    tmp_path: Path, papers: Papers, change: dict[str, str], reason: str
) -> None:
    usual = papers.tls("paris", clients=papers)
    configuration = configured(tmp_path, tls=msgspec.structs.replace(usual, **change))
    with pytest.raises(TidingsError, match=reason):
        await Broker(configuration).start()
