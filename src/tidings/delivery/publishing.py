"""Publishing: what clients say under their names, up to which number it is kept, and what is not.

A publication is on disk with its number before anybody hears of it, so that it is neither lost nor
kept twice, whatever crashes. `publishers` says whose a name is, `refusals` what is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tidings.delivery.holdings import Holdings
from tidings.delivery.logs import Logs
from tidings.delivery.publishers import Publisher, Publishers
from tidings.delivery.quotas import Quota, Quotas
from tidings.delivery.readers import Client
from tidings.delivery.refusals import LEFT_OUT, REFUSED, Refusals
from tidings.events import Notification
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
        self.quotas = Quotas(kernel, quota, holdings.durables, self.publishers.ages)

    def saved(self) -> Collection[Shelf[Any] | Single[Any]]:
        """Under which keys it is stored."""
        return PUBLISHERS, REFUSED

    def kept(self) -> dict[str, Any]:
        """All that is stored of it, if what is known is right."""
        names = {PUBLISHERS.key(name): tuple(known) for name, known in self.publishers.items()}
        return names | self.refusals.stored()

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up what an earlier node had stored."""
        for name, known in PUBLISHERS.found(stored):
            self.publishers.restore(name, known)
        days = {name: known.day for name, known in self.publishers.items()}
        self.refusals.restore(stored, last=days)

    def audit(self, clients: Mapping[str, Client]) -> Iterator[str]:
        """Whether these are the clients that it knows."""
        if self._clients is not clients:
            yield "what is published is of other clients"

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

    def resume(self, session: str, name: str) -> int:
        """Somebody goes on under a name: tell what was refused; up to which number all is kept."""
        number = self.publishers[name].number
        # What was refused behind that is sent again, or left out.
        self._emit(self.refusals.forget(name, above=number))
        for refusal in self.refusals.of(name):
            self._kernel.emit(Reply(session, refusal))
        return number

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

    def publish(self, session: Session, body: Publish, time: float) -> None:
        """Keep what is new, then let it flow. Without anything, a number is left out."""
        name = self._clients[session.name].publisher
        if not body.notifications:
            self._note(name, body.number, LEFT_OUT)
            return
        no_name = self.quotas.no_name(name)
        if no_name is not None:
            for number in range(body.number, body.number + len(body.notifications)):
                self._refuse(session, name, number, no_name)
            return
        last = self.publishers[name].number
        said: list[tuple[Notification, bool]] = []
        for number, notification in enumerate(body.notifications, body.number):
            if number <= last:
                continue
            last = number
            flood = self._wants.is_for_all(session, notification, enforce=self._enforce)
            if flood is None:
                reason = "no advertisement of yours matches this; advertise it first"
                self._refuse(session, name, number, reason)
            else:
                said.append((notification, flood))
        events = self._logs.keep(self._logs.published, said, time, name)
        if events:
            kept = self.publishers.keep(name, last, day=self._holdings.day)
            self._kernel.emit(PUBLISHERS.put(name, kept))
            self._emit(self.refusals.kept(name, last))
            self._kernel.emit(Sync())
        self._kernel.emit(Reply(session.name, Accepted("publish", last)))
        self._flow(events)

    def declined(self, input: Declined) -> None:
        """The host has refused something, and told so."""
        client = self._clients.get(input.session)
        if client is not None:
            self._note(client.publisher, input.number, input.reason)

    def _refuse(self, session: Session, name: str, number: int, reason: str) -> None:
        self._note(name, number, reason)
        self._kernel.emit(Reply(session.name, Refused(str(number), reason)))

    def _note(self, name: str, number: int, reason: str) -> None:
        """If the answer is lost and a later number kept, the client would take both for kept: it
        is told again when it comes back."""
        if number > self.publishers[name].number:  # else it was decided before
            self._emit(self.refusals.add(name, number, reason))

    def _emit(self, changes: Iterable[Store]) -> None:
        for change in changes:
            self._kernel.emit(change)
