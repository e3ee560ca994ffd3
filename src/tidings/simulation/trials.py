"""Trials: random runs of nodes with a log, with subscribers whose every delivery is checked.

A trial is a scenario like any other, so that it can be made smaller and replayed; only its steps
say more. Logs keep so little in memory, and send so little at a time, that small runs read them
from the store and in many parts. The clocks of the nodes are wrong; what is checked goes by the
order of what happens in virtual time, and by a clock only where somebody asks for a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from tidings.delivery.log import Log
from tidings.delivery.subscriptions import Subscriptions
from tidings.events import Filter
from tidings.node import Settings
from tidings.protocol import Event, Subscribe
from tidings.protocol.messages import Fetch, Fetched, Frame, Offer, Seek, Sought, Streams
from tidings.protocol.parts import Session
from tidings.simulation.guarantees import Guarantees
from tidings.simulation.play import Play, bound
from tidings.simulation.properties import Violation
from tidings.simulation.random_runs import learns, random_event, random_filter, random_lesson
from tidings.simulation.scenario import Scenario, Step
from tidings.simulation.simulation import Channel, Conditions, Simulation
from tidings.simulation.subscribers import Subscriber

_TODAY: Final = 1_000_000.0
"""The time of day when a trial begins, in seconds since 1970."""
_REST: Final = 3.0
"""For so long nothing may be said at rest."""
_CLIENTS: Final = 4
_COMMITS: Final = (0.01, 0.1, 0.4)
"""Seconds that commits take at most, in one trial or another."""
_PART: Final = 0.2
"""So long it may take to fetch one event, where each is fetched alone."""


class Network(Simulation):
    """A simulation of nodes with small memories."""

    def __init__(self, scenario: Scenario) -> None:
        self.fetching = 0
        """How much was said that is only said after something has changed."""
        self.guarantees = Guarantees(self)
        self._small = Random(scenario.seed)
        super().__init__(
            scenario.topology(),
            scenario.settings,
            seed=scenario.seed,
            conditions=Conditions(**scenario.conditions),
            clocks=_clocks(scenario),
        )
        self.committing = self._small.choice(_COMMITS)

    def _start(self, name: str, *, was_damaged: bool = False) -> None:
        super()._start(name, was_damaged=was_damaged)
        delivery = self.nodes[name].from_log
        self._watch(name, delivery.subscriptions)
        logs = delivery.logs
        tail = self._small.choice((0, 2, 100))
        for stream, log in logs.logs.items():
            logs.logs[stream] = Log(first=log.first, last=log.last, time=log.time, tail=tail)
        logs.read_limit = self._small.choice((1, 3, 100))
        logs.part_limit = self._small.choice((30, 100, 1 << 20))

    def _watch(self, name: str, subscriptions: Subscriptions) -> None:
        """What a subscription finds is decided when it is let in, which may be later than asked."""
        admit = subscriptions.admit

        def watched(session: Session, body: Subscribe, time: float) -> None:
            self.guarantees.admitted(name, body)
            subscriber = self.lines.get(session.name)
            if isinstance(subscriber, Subscriber):
                subscriber.admitted(body)
            admit(session, body, time)

        subscriptions.admit = watched  # type: ignore[method-assign]

    def _transmit(self, channel: Channel, packet: Frame | Offer) -> None:
        body = packet.body if isinstance(packet, Frame) else None
        self.fetching += isinstance(body, Fetch | Fetched | Streams | Seek | Sought)
        if isinstance(body, Event):
            self.guarantees.passed(body)
        super()._transmit(channel, packet)


def _clocks(scenario: Scenario) -> dict[str, float]:
    """Clocks that are wrong: any two by no more than the margin of the nodes, or by far more."""
    chance = Random(f"clocks {scenario.seed}")
    wrong = chance.choice((0.5, 5.0)) * scenario.settings.margin
    return {n: _TODAY + chance.uniform(-wrong, wrong) for n in scenario.topology().nodes}


class Trial(Play):
    """A scenario with subscribers, under way."""

    def __init__(self, scenario: Scenario) -> None:
        network = Network(scenario)
        super().__init__(scenario, network)
        self.guarantees = network.guarantees
        self.subscribers: dict[str, Subscriber] = {}
        self.zombies: list[Subscriber] = []
        self.backs: dict[str, int] = {}
        """How often the store of a broker went back."""
        for step in scenario.steps:
            self.simulation.at(step.at, self.perform, step)

    def perform(self, step: Step, _: Any = None) -> None:
        """Do what a step says; what makes no sense by now is left out."""
        if step.client and step.do != "join":
            subscriber = self.subscribers.get(step.client)
            if subscriber is not None and subscriber.is_alive:
                getattr(self, f"_client_{step.do}")(subscriber, step)
        else:
            getattr(self, f"_{step.do}")(step)

    def _join(self, step: Step) -> None:
        if step.client not in self.subscribers and step.node in self.simulation.stores:
            self.subscribers[step.client] = Subscriber(
                self.simulation, step.client, step.node, self.guarantees
            )
        subscriber = self.subscribers.get(step.client)
        if subscriber is not None and not subscriber.is_alive:
            subscriber.begin()

    # -- what subscribers do -------------------------------------------------------------------

    def _client_subscribe(self, who: Subscriber, step: Step) -> None:
        """Since now, the beginning, a time, or half of a log (0, 1, 2, 3); of a durable one that
        is known with its own filter or, if the node is named, with another one. Names that begin
        with s are the same at all nodes."""
        sim = self.simulation
        ago = (1.0 - step.value) * sim.now
        since: Any = (None, "begin", sim.time(who.at) - ago, {})[step.number]
        if step.number == 3:
            store = sim.stores[who.at]
            since = {store.stream: int(step.value * len(store.log))}
        filter_ = Filter.parse(step.filter)
        # What a store that went back still knows of a name is anybody's guess.
        name = step.to and f"{step.to}{'+' * self.backs.get(who.at, 0)}"
        if not name.startswith("s"):
            name = name and f"{who.at}/{name}"
        if name and self.guarantees.is_known(who.at, name) and not step.node:
            filter_ = self.guarantees.durable(who.at, name, filter_).latest.filter
        home: Any = step.id if step.id in ("sure", "here") else ""
        who.subscribe(filter_, name or None, since, replace=step.id == "replace", home=home)

    def _client_unsubscribe(self, who: Subscriber, step: Step) -> None:
        who.unsubscribe(step.id, forget=step.number > 0)

    def _client_again(self, who: Subscriber, step: Step) -> None:
        who.read_on(step.id)

    def _client_take(self, who: Subscriber, step: Step) -> None:
        for other in self.subscribers.values():
            if other is not who and other.at == who.at and other.durables:
                who.take_over(other)
                return

    def _client_ack(self, who: Subscriber, step: Step) -> None:
        who.acknowledge(late=step.number > 0)

    def _client_publish(self, who: Subscriber, step: Step) -> None:
        random = Random(f"{step.event}")
        who.publish([step.event, *(random_event(random) for _ in range(step.number))])

    def _client_advertise(self, who: Subscriber, step: Step) -> None:
        who.advertise(step.id, Filter.parse(step.filter))

    def _client_unadvertise(self, who: Subscriber, step: Step) -> None:
        who.unadvertise(step.id)

    def _client_watch(self, who: Subscriber, step: Step) -> None:
        who.watch(step.id, Filter.parse(step.filter))

    def _client_unwatch(self, who: Subscriber, step: Step) -> None:
        who.unwatch(step.id)

    def _client_stall(self, who: Subscriber, _: Step) -> None:
        who.stall()

    def _client_drain(self, who: Subscriber, _: Step) -> None:
        who.drain()

    def _client_hang(self, who: Subscriber, _: Step) -> None:
        who.hang_up()

    def _client_vanish(self, who: Subscriber, _: Step) -> None:
        who.crash()

    def _client_split(self, who: Subscriber, step: Step) -> None:
        """It is taken for dead; the network lets it through again after a while."""
        who.publish([step.event])
        zombie = who.split()
        zombie.publish([step.event])
        self.zombies.append(zombie)
        self.simulation.at(self.simulation.now + step.value, zombie.connect)

    def _trim(self, step: Step) -> None:
        if step.node in self.simulation.nodes:
            for stream, log in self.simulation.stores[step.node].logs.items():
                self.simulation.trim(step.node, stream, int(len(log) * step.value) + 1)

    def _back(self, step: Step) -> None:
        """A broker is gone with the end of its store, and so are its clients; with a value, it
        will not notice."""
        sim = self.simulation
        if step.node not in sim.stores:
            return  # it has not been started yet
        sim.crash(step.node)
        self.backs[step.node] = self.backs.get(step.node, 0) + 1
        self.guarantees.went_back(step.node)
        for each in [*self.subscribers.values(), *self.zombies]:
            if each.at == step.node:
                each.crash()
                each.durables.clear()
        sim.go_back(step.node, step.number, is_noticed=not step.value)

    def _spoil(self, step: Step) -> None:
        """Damage some events on a disk; a node may still have them in memory."""
        store = self.simulation.stores.get(step.node)
        if store is not None:
            first = int(len(store.log) * step.value) + 1
            store.spoil(range(first, first + step.number))

    def _slow(self, step: Step) -> None:
        """Disks take up to this many seconds for whatever they are asked."""
        self.simulation.reading = self.simulation.committing = step.value

    def _fail(self, step: Step) -> None:
        """The next commits fail; with a value, what they were to keep is kept all the same."""
        store = self.simulation.stores.get(step.node)
        if store is not None:
            store.failures += [step.value > 0] * step.number

    # -- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Heal, and check that everything is as it must be, then and after a little more."""
        self.run()
        self.heal()
        sim = self.simulation
        sim.reading, sim.committing = 0.05, 0.02
        sim.run(sim.now + 1.0)
        for subscriber in self.subscribers.values():
            subscriber.drain()
            if not subscriber.is_alive:
                subscriber.begin()
        longest = max(sum(map(len, store.logs.values())) for store in sim.stores.values())
        sim.run(sim.now + bound(sim) + 2.0 + longest * _PART)
        self._check_rest()
        self._check_zombies()
        for subscriber in self.subscribers.values():
            subscriber.publish([{"x": x, "s": "a"} for x in range(0, 10, 3)])
        sim.run(sim.now + 2 * sim.settings.progress)
        self._check_rest()

    def _check_zombies(self) -> None:
        """Of all instances under a name, one is left."""
        for name, subscriber in self.subscribers.items():
            zombies = [z.instance for z in self.zombies if z.name == name and z.is_alive]
            if zombies and subscriber.is_alive:
                self.guarantees.fail(f"{zombies} still are {name} beside {subscriber.instance}")

    def _check_rest(self) -> None:
        self.guarantees.check(self.subscribers.values())
        sim = self.simulation
        assert isinstance(sim, Network)
        before = sim.fetching
        sim.run(sim.now + _REST)
        if sim.fetching > before:
            self.guarantees.fail(f"{sim.fetching - before} messages of fetching at rest")


def play(scenario: Scenario) -> Trial:
    """Run a trial with every check there is; `Violation` if something does not hold."""
    trial = Trial(scenario)
    trial.finish()
    return trial


def fails(scenario: Scenario) -> bool:
    """Whether something does not hold in this trial."""
    try:
        play(scenario)
    except Violation:
        return True
    return False


def random_trial(
    seed: int,
    *,
    settings: Settings,
    network: Mapping[str, Any],
    faults: str = "all",
    steps: int = 60,
    duration: float = 20.0,
) -> Scenario:
    """A trial of so many steps; the same for the same arguments."""
    random = Random(f"{seed} {faults} {steps}")
    topology = Scenario(network=dict(network)).topology()
    links = tuple((link.a, link.b) for link in topology.links)
    drawn = [
        Step(0.0, "join", client=f"c{n}", node=random.choice(topology.nodes))
        for n in range(_CLIENTS)
    ]
    if settings.advertisements is not None:
        drawn += [
            Step(0.1, "advertise", client=f"c{n}", id="a", filter=random.choice(("TRUE", "x < 6")))
            for n in range(_CLIENTS)
        ]
    kinds = _kinds(faults, settings)
    for number, at in enumerate(sorted(random.uniform(0.2, duration) for _ in range(steps))):
        do = random.choices(list(kinds), list(kinds.values()))[0]
        drawn.append(_step(random, round(at, 3), do, number, topology.nodes, links))
    return Scenario(
        title=f"random trial {seed}, faults: {faults}",
        seed=seed,
        duration=duration,
        network=dict(network),
        settings=settings,
        conditions={"jitter": 0.03} if faults != "none" else {},
        steps=tuple(drawn),
    )


def _kinds(faults: str, settings: Settings) -> dict[str, float]:
    """What may happen, and how often."""
    kinds = {"subscribe": 8.0, "unsubscribe": 3, "publish": 14, "ack": 5, "watch": 1, "unwatch": 1}
    kinds |= {"again": 1, "take": 2}
    if learns(settings):
        kinds |= {"learn": 3}
    if settings.advertisements is not None:
        kinds |= {"advertise": 4, "unadvertise": 3}
    if faults != "none":
        kinds |= {"loss": 1, "duplication": 1, "jitter": 1, "stall": 2, "drain": 3}
    if faults not in ("none", "packets"):
        kinds |= {"cut": 2, "mute": 1, "mend": 4, "hang": 2, "split": 1}
    if faults in ("crashes", "all"):
        kinds |= {"crash": 3, "restart": 5, "vanish": 2, "join": 3, "fail": 2}
    if faults == "all":
        kinds |= {"trim": 1, "slow": 1, "back": 1, "spoil": 0.5}
    return kinds


def _step(
    random: Random,
    at: float,
    do: str,
    number: int,
    nodes: tuple[str, ...],
    links: tuple[tuple[str, str], ...],
) -> Step:
    client, node = f"c{random.randrange(_CLIENTS)}", random.choice(nodes)
    make: dict[str, Callable[[], Step]] = {
        "subscribe": lambda: Step(
            at,
            do,
            client=client,
            filter=random_filter(random),
            to=random.choice(("", "d1", "d2", "s1")),
            number=random.choice((0, 0, 0, 0, 1, 2, 3)),
            value=round(random.random(), 3),
            node=random.choice(("", "", "", node)),
            id=random.choice(("", "replace", "", "replace", "sure", "here")),
        ),
        "unsubscribe": lambda: Step(
            at, do, client=client, id=f"s{random.randint(1, 6)}", number=random.randrange(2)
        ),
        "again": lambda: Step(at, do, client=client, id=f"s{random.randint(1, 6)}"),
        "publish": lambda: Step(
            at, do, client=client, event=random_event(random), number=random.choice((0, 0, 1, 4))
        ),
        "split": lambda: Step(
            at, do, client=client, event=random_event(random), value=round(random.uniform(0, 5), 3)
        ),
        "learn": lambda: Step(at, "publish", client=client, event=random_lesson(random)),
        "ack": lambda: Step(at, do, client=client, number=random.randrange(2)),
        "advertise": lambda: Step(
            at, do, client=client, id=random.choice("ab"), filter=random_filter(random)
        ),
        "unadvertise": lambda: Step(at, do, client=client, id=random.choice("ab")),
        "watch": lambda: Step(
            at, do, client=client, id=random.choice("vw"), filter=random_filter(random)
        ),
        "unwatch": lambda: Step(at, do, client=client, id=random.choice("vw")),
        "join": lambda: Step(at, do, client=client, node=node),
        "loss": lambda: Step(at, do, value=random.choice((0.0, 0.1, 0.4))),
        "duplication": lambda: Step(at, do, value=random.choice((0.0, 0.1, 0.4))),
        "jitter": lambda: Step(at, do, value=random.choice((0.0, 0.05, 0.3))),
        "slow": lambda: Step(at, do, value=random.choice((0.05, 0.5))),
        "crash": lambda: Step(at, do, node=node, number=random.choice((0, 0, 1, 2, 3, 4, 6))),
        "restart": lambda: Step(at, do, node=node),
        "fail": lambda: Step(
            at, do, node=node, number=random.choice((1, 1, 2)), value=float(random.randrange(2))
        ),
        "back": lambda: Step(at, do, node=node, number=random.choice((1, 1, 3, 10, 100))),
        "spoil": lambda: Step(
            at, do, node=node, value=round(random.random(), 2), number=random.randint(1, 4)
        ),
        "trim": lambda: Step(at, do, node=node, value=round(random.random(), 2)),
    }
    if do in make:
        return make[do]()
    if do in ("cut", "mute", "mend"):
        a, b = random.choice(links) if links else (node, node)
        return Step(at, do, node=a, to=b)
    return Step(at, do, client=client)
