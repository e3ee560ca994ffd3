"""The package as `pip install tidings` brings it: a client, and nothing that only brokers need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.client.brokers import BrokerProcess

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, what it asks for, and nothing else.

    What it asks for is copied from the environment of the tests, so that nothing is fetched.
    """
    folder = tmp_path_factory.mktemp("install")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    run(*pip, *build)
    [wheel] = folder.glob("tidings-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    programs = folder / "venv" / "bin"
    run(
        *pip, "--python", str(programs / "python"), "install", "--no-deps", "--no-index", str(wheel)
    )
    [about] = packages.glob("tidings-*.dist-info")
    for name in needed(Distribution.at(about), set()):
        copy(distribution(name), packages)
    return programs


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def needed(of: Distribution, known: set[str]) -> set[str]:
    """What a distribution requires without extras, and what that requires in turn."""
    for text in of.requires or []:
        wanted = Requirement(text)
        is_due = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if is_due and wanted.name not in known:
            known.add(wanted.name)
            needed(distribution(wanted.name), known)
    return known


def copy(found: Distribution, packages: Path) -> None:
    for file in found.files or []:
        if ".." not in file.parts and file.suffix != ".pyc":
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)


def test_it_is_small(installed: Path) -> None:
    [packages] = installed.parent.glob("lib/python*/site-packages")
    names = {re.split(r"[-.]", path.name)[0].lower() for path in packages.iterdir()}
    assert not names & {"numpy", "numba", "pyarrow", "pyspark", "deltalake", "uvloop"}


def test_to_be_imported_it_loads_little(installed: Path) -> None:
    said = run(
        str(installed / "python"),
        "-c",
        "import sys, tidings; tidings.connect_sync; tidings.Filter;"
        "print(*{m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names))",
    )
    assert set(said.split()) <= {"tidings", "msgspec", "typing_extensions", "__main__"}


def test_it_publishes_to_a_broker_and_hears_it(installed: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        program = str(installed / "tidings")
        run(program, "publish", '{"n": 1}', TIDINGS_URL=broker.url)
        code = (
            "import sys, tidings\n"
            "with tidings.connect_sync(sys.argv[1]) as client:\n"
            "    print(client.publish({'n': 2}).number)\n"
        )
        assert run(str(installed / "python"), "-c", code, broker.url) == "1\n"
        arguments = ("subscribe", "n > 0", "--since", "begin", "--until", "now")
        assert run(program, *arguments, TIDINGS_URL=broker.url) == '{"n":1}\n{"n":2}\n'
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["up"], "broker"),
        (["demo"], "broker"),
        (["network"], "broker"),
        (["simulate", "ring.toml"], "broker"),
        (["match", "--filters", "filters.tsv"], "broker"),
        (["pipeline", "archive", "--lake", "lake"], "lakes"),
        (["pipeline", "match", "--lake", "a", "--filters", "filters.tsv", "--out", "b"], "lakes"),
        (["subscribe", "n > 0", "--lake", "lake", "--since", "begin"], "lakes"),
        (["experiment"], "experiments"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_a_command_lacks_is_said(
    installed: Path, tmp_path: Path, arguments: list[str], extra: str
) -> None:
    (tmp_path / "filters.tsv").write_text("a\tn > 0\n")
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        done = subprocess.run(
            [str(installed / "tidings"), *arguments],
            env={**os.environ, "PYTHONPATH": "", "TIDINGS_URL": broker.url},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        broker.stop()
    assert done.returncode == 2
    assert done.stderr.startswith("error: "), done.stderr
    assert done.stderr.endswith(f" is not installed. Try: pip install 'tidings[{extra}]'\n")
