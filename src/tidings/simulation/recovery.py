"""Recovery: random runs in which nodes with a log are damaged, and what must hold some time later.

Witnesses publish, subscribe and come back all the time, while links are cut and any field of any
node is damaged. Then the faults are over. Within `recovery_bound` the network has recovered: what
is published from then on is heard by exactly those who want it, once and in order. And whoever was
not told exactly what it wants from its beginning on has been told that this may be so.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, NoReturn

from tidings.events import Filter, Notification
from tidings.node import Settings
from tidings.protocol import (
    Accepted,
    Acknowledge,
    Attach,
    Deliver,
    Detach,
    Doubtful,
    Event,
    Missed,
    Progress,
    Publish,
    Refused,
    Reply,
    Request,
    Resend,
    Subscribe,
    Unsubscribe,
)
from tidings.protocol.requests import Answer, Cursor, RequestBody
from tidings.simulation.damage import damage
from tidings.simulation.play import bound
from tidings.simulation.properties import Violation
from tidings.simulation.random_runs import random_filter
from tidings.simulation.scenario import Scenario
from tidings.simulation.simulation import Simulation
from tidings.simulation.trials import Network

_PAUSE: Final = 0.3
"""A lost connection is tried again so often."""
_WITNESSES: Final = 4
_RUN: Final = 12.0
_STEPS: Final = 40
_ID: Final = "main"


def recovery_bound(simulation: Simulation) -> float:
    """Within so many seconds after the last damage what is published is delivered exactly.

    A node audits itself with every check, and compares itself with its store and its host in the
    longest period. What was asked and lost is asked again after two of these. Then everything is as
    after a crash, or after another fault of the tables.
    """
    settings = simulation.settings
    longest = max(settings.check, settings.check_most)
    return 3 * settings.check + 4 * longest + settings.silence + 2 * bound(simulation)


class Witness:
    """A client that wants one filter for ever, and comes back whenever it is cut off."""

    def __init__(
        self, simulation: Simulation, name: str, at: str, filter: Filter, durable: str | None
    ) -> None:
        self.simulation, self.name, self.at, self.filter = simulation, name, at, filter
        self.durable = durable
        self.is_full = False
        self.heard: list[Event] = []
        self.start: Cursor | None = None
        self.position: Cursor = {}
        self.was_told = False
        """Something may be wrong with what it has heard."""
        self._begun = -1.0
        self._doubts: int | None = None
        self._number = self._epoch = self._attempts = self._connection = 0
        self._is_connected = self._is_attached = False
        self._id = ""
        self._ids = 0
        self._outbox: dict[int, Notification] = {}
        self._unsent: list[Notification] = []
        self.connect()

    @property
    def session(self) -> str:
        """It, over one of its connections."""
        return f"{self.name}.{self._connection}"

    # -- connections ---------------------------------------------------------------------------

    def connect(self, *_: Any) -> None:
        """Attach, and ask for all that lies behind the position."""
        if self._is_connected:
            return
        if self.at not in self.simulation.nodes:
            self.simulation.at(self.simulation.now + _PAUSE, self.connect)
            return
        self._is_connected = True
        self.simulation.lines[self.session] = self
        self._attempts += 1
        self._ask(Attach(name=self.name, instance=self.name, epoch=self._epoch))
        self._subscribe()

    def _subscribe(self) -> None:
        self._ids += 1
        self._id = f"{_ID}{self._ids}"
        if self.start is None:
            self._ask(Subscribe(self._id, self.filter, self.durable, owner=self.name))
            return
        heard, begun = dict(self.position), self._begun
        self._ask(
            Subscribe(
                *(self._id, self.filter, self.durable),
                begun=begun,
                heard=heard,
                owner=self.name,
                doubts=self._doubts,
            )
        )

    def hang_up(self) -> None:
        """The connection breaks, and is soon made again."""
        if self._is_connected:
            session = self.session
            self.broken()
            self.simulation.hear(self.at, Request(session, Detach()))

    def broken(self) -> None:
        """The node is gone."""
        self.simulation.lines.pop(self.session, None)
        self._connection += 1
        self._is_connected = self._is_attached = False
        self.simulation.at(self.simulation.now + _PAUSE, self.connect)

    def _ask(self, body: RequestBody) -> None:
        connection = self._connection

        def arrive(*_: Any) -> None:
            if connection == self._connection:
                self.simulation.hear(self.at, Request(self.session, body, self.simulation.now))

        self.simulation.at(self.simulation.now, arrive)

    # -- what it does --------------------------------------------------------------------------

    def publish(self, *notifications: Notification) -> None:
        """Say what happened, as soon as it is known which numbers are taken."""
        self._unsent += notifications
        if self._is_attached:
            self._publish()

    def _publish(self) -> None:
        for each in self._unsent:
            self._number += 1
            self._outbox[self._number] = each
        self._unsent = []
        for number, each in self._outbox.items():
            self._ask(Publish(number, (each,)))

    def acknowledge(self) -> None:
        """All that it was told is done with."""
        if self.durable is not None and self._is_attached and self.position:
            self._ask(Acknowledge(self._id, dict(self.position)))

    def read_more(self, filter: Filter) -> None:
        """Read something else from the beginning, and no longer after a while."""
        self._ids += 1
        id = f"more{self._ids}"
        self._ask(Subscribe(id, filter, since="begin"))
        self.simulation.at(self.simulation.now + 2.0, lambda *_: self._ask(Unsubscribe(id)))

    # -- what it is told -----------------------------------------------------------------------

    def meant(self, effect: Deliver | Reply) -> None:
        """What the node wants said counts once it is said."""

    def told(self, effect: Deliver | Reply) -> None:
        """The node says something, which arrives in order."""
        connection = self._connection

        def arrive(*_: Any) -> None:
            if connection == self._connection:
                self._hear(effect)

        self.simulation.at(self.simulation.now + 0.01, arrive)

    def _hear(self, effect: Deliver | Reply) -> None:
        if isinstance(effect, Reply):
            self._answered(effect.answer)
        elif self._id in effect.ids:
            event = effect.event
            self.heard.append(event)
            self.position[event.stream] = event.tick

    def _answered(self, answer: Answer) -> None:
        match answer:
            case Accepted(id="attach"):
                self._epoch, self._is_attached = answer.epoch, True
                self._kept(answer.number)
                self._number = max(self._number, answer.number)
                self._publish()
            case Accepted(id="publish"):
                self._kept(answer.number)
            case Accepted(id=self._id):
                self._accepted(answer)
            case Progress(id="" | self._id):
                self._move(answer.cursor)
            case Doubtful(id=self._id):
                self.was_told, self._doubts = True, answer.doubts
            case Missed(id=self._id):
                self.was_told = True
            case Refused(id=self._id):
                self._refused(answer)
            case Refused(id="session"):
                self.was_told = True
                self._epoch = 0
                self.hang_up()
            case Resend():
                self.hang_up()

    def _accepted(self, answer: Accepted) -> None:
        cursor = answer.cursor or {}
        if self.start is None:
            self.start = dict(cursor)
        self._begun, self._doubts = answer.begun, answer.doubts
        self._move(cursor)

    def _refused(self, answer: Refused) -> None:
        """It is told that its place is gone, or that the node does not know it any more."""
        self.was_told = True
        if answer.cursor is not None:
            self.position = dict(answer.cursor)
        else:
            self.start, self.position = None, {}
        self._subscribe()

    def _move(self, cursor: Cursor) -> None:
        for stream, tick in cursor.items():
            self.position[stream] = max(tick, self.position.get(stream, tick))

    def _kept(self, number: int) -> None:
        for kept in [n for n in self._outbox if n <= number]:
            del self._outbox[kept]


class Recovery:
    """One run; the same for the same arguments."""

    def __init__(self, seed: int, *, network: dict[str, Any], settings: Settings) -> None:
        self.random = Random(f"recovery {seed}")
        scenario = Scenario(seed=seed, network=network, settings=settings)
        self.simulation: Simulation = Network(scenario)
        self.simulation.may_fail = True
        # What comes back mends much by the way, so half of the runs go on as if nothing was.
        self._kinds = ["publish", "publish", "publish", "ack"]
        self._kinds += ["read", "hang", "cut", "mend"] if seed % 2 else []
        self.damages: list[str] = []
        """What was damaged, and when."""
        nodes = self.simulation.topology.nodes
        self.witnesses = [
            Witness(
                *(self.simulation, f"w{n}", self.random.choice(nodes)),
                Filter.parse("TRUE" if n % 2 else "x < 5"),
                f"d{n + 1}" if n < 2 else None,
            )
            for n in range(_WITNESSES)
        ]

    def run(self, damages: int) -> None:
        """Let it go well for a while, then badly, then wait until it must go well again."""
        sim, random = self.simulation, self.random
        sim.run(bound(sim) / 2)
        begun = sim.now
        kinds = ["step"] * _STEPS + ["damage"] * damages
        random.shuffle(kinds)
        for number, kind in enumerate(kinds):
            sim.run(begun + _RUN * number / len(kinds))
            self._damage() if kind == "damage" else self._step()
        for link in sim.topology.links:
            sim.restore_link(link.a, link.b)
        sim.run(sim.now + recovery_bound(sim))

    def _damage(self) -> None:
        node = self.random.choice(sorted(self.simulation.nodes))
        what = damage(self.simulation.nodes[node], self.random)
        self.damages.append(f"{self.simulation.now:.2f} {node}: {what}")

    def _step(self) -> None:
        random, sim = self.random, self.simulation
        witness = random.choice(self.witnesses)
        match random.choice(self._kinds):
            case "publish":
                witness.publish(*(_event(random) for _ in range(random.randint(1, 3))))
            case "ack":
                witness.acknowledge()
            case "read":
                witness.read_more(Filter.parse(random_filter(random)))
            case "hang":
                witness.hang_up()
            case "cut" if sim.topology.links:
                link = random.choice(sim.topology.links)
                sim.fail_link(link.a, link.b)
            case "mend":
                for link in sim.topology.links:
                    sim.restore_link(link.a, link.b)

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        """Publish, and see who hears it. `Violation` says what does not hold."""
        sim = self.simulation
        before = {witness.name: len(witness.heard) for witness in self.witnesses}
        lengths = {stream: len(sim.log(stream)) for stream in sim.streams}
        for witness in self.witnesses:
            witness.publish(*(Notification({"x": x, "by": witness.name}) for x in (2, 7, 4)))
        sim.run(sim.now + 3.0)
        for name, store in sim.stores.items():
            more = sum(witness.at == name for witness in self.witnesses)
            kept = sum(len(log) - lengths.get(stream, 0) for stream, log in store.logs.items())
            if kept != 3 * more:
                self._fail(f"{name} has kept {kept} of {3 * more}")
        for witness in self.witnesses:
            news = witness.heard[before[witness.name] :]
            self._compare(witness, news, lengths, "after recovery")
            if not witness.was_told:
                if witness.start is None:
                    self._fail(f"{witness.name} was never accepted")
                self._compare(witness, witness.heard, witness.start, "and was told of no doubt")

    def _compare(self, witness: Witness, heard: list[Event], since: Cursor, when: str) -> None:
        for stream in self.simulation.streams:
            log = self.simulation.log(stream)[since.get(stream, 0) :]
            right = [e.tick for e in log if witness.filter.matches(e.notification)]
            found = [e.tick for e in heard if e.stream == stream]
            if found != right:
                self._fail(f"{witness.name} hears {found} of {stream}, not {right}, {when}")

    def _fail(self, what: str) -> NoReturn:
        story = "\n".join(
            [*self.damages, *(f"{at:.2f} {n} replaced: {why}" for at, n, why in self._replaced())]
        )
        raise Violation(f"at {self.simulation.now:.1f} s: {what}\n{story}")

    def _replaced(self) -> list[tuple[float, str, str]]:
        return self.simulation.replaced


def recover(
    seed: int, *, network: dict[str, Any], settings: Settings, damages: int = 1
) -> Recovery:
    """A run of so many damages; `Violation` if it does not recover."""
    run = Recovery(seed, network=network, settings=settings)
    run.run(damages)
    run.check()
    return run


def _event(random: Random) -> Notification:
    return Notification({"x": random.randint(0, 9), "s": random.choice("abc")})
