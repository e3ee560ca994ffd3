"""Commands in virtual time: simulate, and the papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.complaints import failures_told
from tidings.cli.options import Master, argument, option

commands = typer.Typer()


@commands.command()
def simulate(
    scenario: Annotated[Path, argument("SCENARIO", "A TOML file, or the JSON of a kept run.")],
    draw: Annotated[
        Path | None, option("--draw FILE", "Draw the network at the end, as SVG.")
    ] = None,
    check: Annotated[
        bool, option("--check", "Check all that must hold; 1 is the exit code if not.")
    ] = False,
    seed: Annotated[
        int | None, option("--seed N", "Other clients, events and faults.", min=0)
    ] = None,
    save_steps: Annotated[
        Path | None, option("--save-steps FILE", "Write all that happens, as JSON.")
    ] = None,
    trace: Annotated[
        Path | None, option("--trace FILE", "Write all that travels, as Parquet.")
    ] = None,
) -> None:
    """Simulate a network of brokers in virtual time.

    A scenario says which network, what its clients do, and what breaks. The brokers in it are
    the real ones; only time, links and disks are simulated. The same scenario gives the same
    run, so whatever is found can be replayed.

    \b
    A scenario, say market.toml:
      duration = 20                 # seconds
      [network]
      kind = "waxman"               # or line, balanced, random_tree, grid, ...
      nodes = 30
      seed = 1
      [settings]
      subscriptions = "covering"    # or flooding, simple, identity, merging, ...
      tree = true                   # the network has cycles: agree on a tree
      [workload]                    # clients by the number; they ask for quotes
      subscriptions = 5             # each
      events = 20                   # a second
      begin = 8
      [faults]
      crashes = 6                   # a minute
      [[steps]]                     # and what else is to happen
      at = 12
      do = "crash"
      node = "b7"

    With --check, the promises of the service are checked all the time; at the end all faults
    are over, and the network must recover.

    \b
    Exit codes:
      0  done, and nothing was wrong
      1  a promise was broken
      2  the scenario is wrong, or a file cannot be read or written

    \b
    Examples:
      tidings simulate market.toml
      tidings simulate market.toml --check --draw market.svg
      tidings simulate market.toml --seed 7 --save-steps run-7.json
    """
    with failures_told():
        from tidings.cli.simulate import simulate_file

        code = simulate_file(
            scenario, picture=draw, check=check, seed=seed, steps=save_steps, trace=trace
        )
    raise typer.Exit(code)


@commands.command()
def experiment(
    name: Annotated[str | None, argument("NAME", "Which one; none lists them.")] = None,
    listed: Annotated[bool, option("--list", "List the experiments.")] = False,
    full: Annotated[bool, option("--full", "The sizes of the paper; may take hours.")] = False,
    runs: Annotated[int | None, option("--runs N", "Measurements of each point.", min=1)] = None,
    out: Annotated[
        Path | None, option("--out DIR", "Where to write; else experiments/NAME.")
    ] = None,
    traces: Annotated[
        bool, option("--traces", "Keep all that travelled, and analyse that, too.")
    ] = False,
    master: Master = "local[*]",
) -> None:
    """Measure again what a paper measured, and compare.

    Brokers run in the simulator, many simulations side by side on Spark: on this machine, or on
    a cluster that has tidings installed. The figures are held against what theory or the paper
    says. A report, plots and all measurements are written to a directory.

    \b
    Examples:
      tidings experiment
      tidings experiment rebeca-tables
      tidings experiment rebeca-tables --full --master spark://host:7077
    """
    with failures_told(extra="experiments"):
        from tidings.experiments import find

        chosen = None if name is None or listed else find(name)

        from tidings.cli.experiment import list_experiments, run_experiment
        from tidings.cli.terminal import output

        if chosen is None:
            list_experiments(output())
        else:
            where = out or Path("experiments", chosen.name)
            run_experiment(chosen, where, full=full, runs=runs, master=master, traces=traces)
