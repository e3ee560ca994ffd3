"""Publishing: what clients say under their names, up to which number it is kept, and what is not.

A publication is on disk with its number before anybody hears of it, so that it is neither lost nor
kept twice, whatever crashes. `publishers` says whose a name is, `refusals` what is not kept, `ids`
what is known by an id, and `inquiries` asks for that at other nodes. A `batch` sorts what came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tidings.delivery.ages import principal_of
from tidings.delivery.batch import Batch
from tidings.delivery.holdings import Holdings
from tidings.delivery.ids import IDS, Ids, Place
from tidings.delivery.inquiries import Findings, Inquiries
from tidings.delivery.logs import Logs
from tidings.delivery.publishers import Publisher, Publishers
from tidings.delivery.quotas import Quota, Quotas
from tidings.delivery.readers import Client
from tidings.delivery.refusals import LEFT_OUT, REFUSED, Refusals
from tidings.delivery.streams import Reached
from tidings.protocol.host import Declined, Reply, Store, Sync
from tidings.protocol.messages import Event
from tidings.protocol.parts import Kernel, Session, Shelf, Single, Wants
from tidings.protocol.requests import Accepted, Attach, Publish, Refused

PUBLISHERS: Final = Shelf[Publisher]("publisher")


class Publishing:
    """The names under which is published at a node, and what is."""

    def __init__(
        self,
        kernel: Kernel,
        wants: Wants,
        logs: Logs,
        reached: Reached,
        holdings: Holdings,
        clients: Mapping[str, Client],
        quota: Quota,
        flow: Callable[[Sequence[Event]], None],
        *,
        enforce: bool,
    ) -> None:
        """What is kept may `flow`. What was not advertised is refused if `enforce`."""
        self._kernel, self._wants, self._logs = kernel, wants, logs
        self._holdings, self._clients = holdings, clients
        self._flow, self._enforce = flow, enforce
        self.publishers = Publishers()
        self.refusals = Refusals()
        self.ids = Ids()
        self.inquiries = Inquiries(kernel, reached, self.ids, self._take, self.publish)
        self.quotas = Quotas(kernel, quota, holdings.durables, self.publishers.ages)

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        """Under which keys it is stored."""
        return PUBLISHERS, REFUSED, IDS

    def kept(self) -> dict[str, Any]:
        """All that is stored of it, if what is known is right."""
        names = {PUBLISHERS.key(name): tuple(known) for name, known in self.publishers.items()}
        return names | self.refusals.stored() | self.ids.stored()

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up what an earlier node had stored."""
        for name, known in PUBLISHERS.found(stored):
            self.publishers.restore(name, known)
        days = {name: known.day for name, known in self.publishers.items()}
        self.refusals.restore(stored, last=days)
        self.ids.restore(stored)

    def audit(self, clients: Mapping[str, Client]) -> Iterator[str]:
        """Whether these are the clients that it knows."""
        if self._clients is not clients:
            yield "what is published is of other clients"
        yield from self.ids.audit()
        yield from self.inquiries.audit()

    # -- names ---------------------------------------------------------------------------------

    def claim(self, name: str, body: Attach) -> int | None:
        """The epoch of a process that attaches, on disk before it is told; None if it is fenced."""
        before = self.publishers[name]
        day = self._holdings.day
        epoch = self.publishers.claim(name, body.instance, body.epoch, day=day)
        if self.publishers[name] is not before:
            self._kernel.emit(PUBLISHERS.put(name, self.publishers[name]))
            self._kernel.emit(Sync())
        return epoch

    def resume(self, session: str, name: str) -> Publisher:
        """Somebody goes on under a name: tell what was refused; what is known of the name."""
        known = self.publishers[name]
        number = known.number
        # What was refused behind that is sent again, or left out.
        self._emit(self.refusals.forget(name, above=number))
        for refusal in self.refusals.of(name):
            self._kernel.emit(Reply(session, refusal))
        return known

    def use(self, name: str) -> None:
        """Somebody has a name today."""
        if self.publishers.use(name, day=self._holdings.day):
            self._kernel.emit(PUBLISHERS.put(name, self.publishers[name]))

    def forget(self, name: str) -> None:
        """The process that has a name has left for good, and will not send anything again."""
        if self.publishers.forget(name):
            self._kernel.emit(PUBLISHERS.drop(name))
        self._emit(self.refusals.forget(name))

    def forget_unused(self) -> None:
        """Forget the names that nobody has used for too long."""
        for name in self._holdings.expired(self.publishers.ages):
            self.forget(name)

    # -- publications --------------------------------------------------------------------------

    def publish(
        self, session: Session, body: Publish, time: float, *, came: float | None = None
    ) -> None:
        """Keep what is new, then let it flow. Without anything, a number is left out.

        Others may have to be asked first. It `came` now, or has waited since then for what is
        before it.
        """
        name = self._clients[session.name].publisher
        if not body.notifications:
            self._note(name, body.number, LEFT_OUT)
            return
        no_name = self.quotas.no_name(name)
        if no_name is not None:
            self._refuse_all(session, name, body, no_name)
            return
        came = self._kernel.now if came is None else came
        waits = self.inquiries.put_behind(session, name, body, time, came=came)
        if waits is None:
            self._refuse_all(session, name, body, _WAITS, is_passing=True)
        elif not waits and not self.inquiries.begin(session, name, body, time, came=came):
            self._take(session, name, body, time, Findings())

    def _take(
        self, session: Session, name: str, body: Publish, time: float, findings: Findings
    ) -> None:
        """Keep what is new, by all that is known of its ids."""
        before = self.publishers[name]
        batch = Batch(body, before.number, self.ids, principal_of(name), findings)
        for number, notification in batch.new:
            flood = self._wants.is_for_all(session, notification, enforce=self._enforce)
            if flood is None:
                batch.refuse(number, _UNADVERTISED)
            else:
                batch.say(number, notification, flood)
        for number, reason, is_passing in batch.refusals():
            self._refuse(session, name, number, reason, is_passing=is_passing)
        events = self._logs.keep(self._logs.published, batch.said, time, name)
        last = max(before.number, body.number + len(body.notifications) - 1)
        kept = batch.kept(events)
        if kept:
            stored = self.publishers.keep(name, last, kept, day=self._holdings.day)
            self._kernel.emit(PUBLISHERS.put(name, stored))
            self._emit(self.refusals.kept(name, last))
            self._keep_ids(principal_of(name), batch.ids(events))
            self._kernel.emit(Sync())
        again = [run for run in before.kept if run.last >= body.number]
        self._kernel.emit(Reply(session.name, Accepted("publish", last, kept=(*again, *kept))))
        self._flow(events)

    def _keep_ids(self, principal: str, kept: Sequence[tuple[bytes, Place]]) -> None:
        if kept:
            self._emit(self.ids.keep(principal, kept, hour=self._holdings.hours))
            self.inquiries.kept(principal, [digest for digest, _ in kept])

    def pass_hour(self) -> None:
        """The node has run for another hour: forget the ids that are too old."""
        self._emit(self.ids.pass_hour(self._holdings.hours))

    def declined(self, input: Declined) -> None:
        """The host has refused something, and told so."""
        client = self._clients.get(input.session)
        if client is not None:
            self._note(client.publisher, input.number, input.reason)

    def _refuse_all(
        self, session: Session, name: str, body: Publish, reason: str, *, is_passing: bool = False
    ) -> None:
        """Nothing of it is kept, besides what was before."""
        first = max(body.number, self.publishers[name].number + 1)
        for number in range(first, body.number + len(body.notifications)):
            self._refuse(session, name, number, reason, is_passing=is_passing)

    def _refuse(
        self, session: Session, name: str, number: int, reason: str, *, is_passing: bool
    ) -> None:
        self._note(name, number, reason)
        refusal = Refused(str(number), reason, is_passing=is_passing)
        self._kernel.emit(Reply(session.name, refusal))

    def _note(self, name: str, number: int, reason: str) -> None:
        """If the answer is lost and a later number kept, the client would take both for kept: it
        is told again when it comes back."""
        if number > self.publishers[name].number:  # else it was decided before
            self._emit(self.refusals.add(name, number, reason))

    def _emit(self, changes: Iterable[Store]) -> None:
        for change in changes:
            self._kernel.emit(change)


_UNADVERTISED: Final = "no advertisement of yours matches this; advertise it first"
_WAITS: Final = "what was published before it waits until other brokers have answered"
