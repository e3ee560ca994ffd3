"""`tidings simulate`: play a scenario in virtual time, and tell what came of it."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import TimeElapsedColumn
from rich.text import Text

from tidings.cli.complaints import complain, counted, remark, shortened
from tidings.cli.progress import bars
from tidings.cli.terminal import output
from tidings.events import TidingsError
from tidings.overlay import Tree
from tidings.simulation import checking
from tidings.simulation.checking import PROBES, Verdict
from tidings.simulation.drawing import draw
from tidings.simulation.guarantees import Violation
from tidings.simulation.play import Play
from tidings.simulation.population import written_out
from tidings.simulation.scenario import Scenario
from tidings.simulation.simulation import Simulation
from tidings.simulation.trace import traced

HELD: Final = 0
VIOLATED: Final = 1

_BUSIEST: Final = 5
_LONGEST_COMPLAINT: Final = 800  # it may tell of whole tables


def simulate_file(
    path: Path,
    *,
    picture: Path | None = None,
    check: bool = False,
    seed: int | None = None,
    steps: Path | None = None,
    trace: Path | None = None,
) -> int:
    """Play a scenario and print what came of it; returns the exit code."""
    scenario = Scenario.load(path)
    if seed is not None:
        scenario = msgspec.structs.replace(scenario, seed=seed)
    for file in (picture, steps, trace):
        if file is not None and not file.parent.is_dir():
            raise TidingsError(f"{file}: there is no folder {file.parent}")
    scenario = written_out(scenario)
    if steps is not None:
        scenario.save(steps)
    try:
        with nullcontext() if trace is None else traced(trace):
            play = checking.begin(scenario) if check else Play.begin(scenario)
            run(play, picture)
            show(play, output())
            if check:
                with _spinner("checking"):
                    verdict = checking.finish(play, PROBES if path.suffix == ".json" else ())
                show_verdict(verdict, output())
    except Violation as violation:
        complain(f"this must not happen: {shortened(str(violation), _LONGEST_COMPLAINT)}")
        remark(f"it happens again with: {_command(path, seed)}")
        return VIOLATED
    return HELD


def run(play: Play, picture: Path | None) -> None:
    """Play to the end of the scenario, or to the first violation, and draw what is there then."""
    began = time.perf_counter()
    try:
        with _bar(play.scenario.duration) as progress:
            play.run(progress)
    finally:
        if picture is not None:
            picture.write_text(drawn(play), encoding="utf-8")
    seconds = time.perf_counter() - began
    rate = play.simulation.traffic.packets / seconds
    remark(f"simulated in {seconds:.1f} s; {rate:,.0f} packets a second")


def drawn(play: Play) -> str:
    """The network as it is, as SVG."""
    simulation = play.simulation
    return draw(
        simulation.topology,
        tables=simulation.table_sizes(),
        traffic=simulation.traffic.by_link,
        tree=simulation.tree() if simulation.settings.tree else None,
        down=[node for node in simulation.topology.nodes if node not in simulation.nodes],
        title=play.scenario.title,
    )


def _command(path: Path, seed: int | None) -> str:
    options = "" if seed is None else f" --seed {seed}"
    return f"tidings simulate {shlex.quote(str(path))} --check{options}"


# -- what came of it ---------------------------------------------------------------------------


def show(play: Play, out: Console) -> None:
    """What there is at the end of the scenario, and what has happened; the same at every run."""
    simulation = play.simulation
    if play.scenario.title:
        out.print(Text(play.scenario.title, style="bold"))
        out.print()
    _row(out, "time", f"{simulation.now:g} s")
    _row(out, "network", *_network(simulation))
    if shape := _shape(simulation):
        _row(out, "tree", shape)
    _row(out, "tables", _tables(simulation))
    _row(out, "messages", *_messages(simulation))
    _row(out, "events", *_events(simulation))
    if busiest := _busiest(simulation):
        _row(out, "busiest", *busiest)


def show_verdict(verdict: Verdict, out: Console) -> None:
    """What the checks have found."""
    _row(out, "checked", *_verdict(verdict), style="green")


def _verdict(verdict: Verdict) -> Iterator[str]:
    hear = "what clients hear, at every step"
    yield f"tables and {hear}" if verdict.was_thorough else f"{hear}; tables, at the end"
    if verdict.damaged_at is not None:
        yield (
            f"from {verdict.damaged_at:.1f} s on, with damaged tables, "
            "only for what is made up, repeated or late"
        )
    # Only a thorough check has compared them with the plain functions.
    became = "were right" if verdict.was_thorough else "agreed"
    yield (
        f"after all faults, tables {became} within {verdict.converged_after:.1f} s; "
        f"{verdict.bound:.1f} s are allowed"
    )
    if verdict.probes:
        yield f"{counted(verdict.probes, 'probe')} from every client reached exactly who wants them"


def _row(out: Console, name: str, *lines: str, style: str = "") -> None:
    for number, line in enumerate(lines):
        label = name if number == 0 else ""
        out.print(Text.assemble((f"{label:10}", "bright_black"), (line, style)))


def _network(simulation: Simulation) -> Iterator[str]:
    topology = simulation.topology
    clients = sum(client.is_alive for client in simulation.clients.values())
    yield ", ".join(
        (
            counted(len(topology), "node"),
            counted(len(topology.links), "link"),
            counted(clients, "client"),
        )
    )
    down = [node for node in topology.nodes if node not in simulation.nodes]
    if down:
        yield f"down: {_some(down)}"
    cut = [
        str(link)
        for link in topology.links
        if not (channel := simulation.channels[link.a, link.b]).is_up or channel.is_silent
    ]
    if cut:
        yield f"cut: {_some(cut)}"


def _shape(simulation: Simulation) -> str:
    """Which tree the events travel on, unless the network is one without a root."""
    topology = simulation.topology
    if topology.root is not None:
        return f"hierarchy under {topology.root}"
    if not simulation.settings.tree:
        return ""
    nodes = simulation.nodes.items()
    trees = {name: node.trees for name, node in nodes if isinstance(node.trees, Tree)}
    roots = Counter(tree.root for tree in trees.values())
    links = counted(len(simulation.tree()), "link")
    if len(roots) == 1:
        deepest = max(tree.distance for tree in trees.values())
        return f"root {next(iter(roots))}, {links}, at most {counted(deepest, 'link')} from there"
    listed = ", ".join(f"{root} ({counted(n, 'node')})" for root, n in sorted(roots.items()))
    return f"not agreed on; roots {listed or 'none'}; {links}"


def _tables(simulation: Simulation) -> str:
    sizes = simulation.table_sizes()
    if not sizes:
        return "none, all nodes are down"
    most = max(sizes.values())
    largest = next(n for n in simulation.topology.nodes if sizes.get(n) == most)
    total = counted(sum(sizes.values()), "entry", "entries")
    return f"{total}; {most:,} of them at {largest}" if most else total


def _messages(simulation: Simulation) -> Iterator[str]:
    traffic = simulation.traffic
    total = sum(traffic.by_link.values())
    width = len(f"{total:,}")
    yield f"{total:,} between nodes"
    yield f"{traffic.control:{width},} change tables, with {counted(traffic.filters, 'filter')}"
    yield f"{traffic.events:{width},} carry events"
    if traffic.reading:
        yield f"{traffic.reading:{width},} tell how far streams are, or fetch what is lacking"
    rest = total - traffic.control - traffic.events - traffic.reading
    yield f"{rest:{width},} keep trees and tables right"
    yield f"in {counted(traffic.packets, 'packet')}; {traffic.lost:,} more were lost"


def _events(simulation: Simulation) -> Iterator[str]:
    clients = simulation.clients.values()
    published = sum(client.published for client in clients)
    refused = sum(len(client.refused) for client in clients)
    yield f"{published:,} published, {sum(c.count for c in clients):,} delivered to clients"
    if published:
        each = simulation.traffic.events / published
        yield f"{each:.2f} messages for each" + (f"; {refused:,} refused" if refused else "")


def _busiest(simulation: Simulation) -> list[str]:
    carried = [
        (
            simulation.traffic.by_link[link.a, link.b] + simulation.traffic.by_link[link.b, link.a],
            str(link),
        )
        for link in simulation.topology.links
    ]
    top = [c for c in sorted(carried, key=lambda c: -c[0]) if c[0]][:_BUSIEST]
    widest = max((len(f"{number:,}") for number, _ in top), default=0)
    return [f"{number:{widest},}  {name}" for number, name in top]


def _some(names: list[str], most: int = 6) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


# -- progress ----------------------------------------------------------------------------------


@contextmanager
def _bar(duration: float) -> Iterator[Callable[[float], None]]:
    """Shows how far virtual time has come, on stderr, if somebody is looking."""
    with bars("{task.completed:.1f} of {task.total:g} s", TimeElapsedColumn()) as shown:
        if shown is None:
            yield lambda part: None
            return
        bar = shown.add_task("simulating", total=duration)
        yield lambda part: shown.update(bar, completed=part * duration)


@contextmanager
def _spinner(what: str) -> Iterator[None]:
    """Shows that something is going on whose end is not known."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(what):
        yield
