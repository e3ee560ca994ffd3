"""The documents' examples, run: Python, shell commands, and blocks of filter examples.

What a fenced block is, its first word says:

`python`    a session with `>>>`, or plain statements; a page's blocks share their names
`python broker`   the same, with a broker that listens at `url`
`console`   `$ command` lines, each followed by all that it prints, stdout and stderr together
`filter`    a filter on a line of its own, and indented below it what is true of it
`filter schema`   the same, with the schema of the `toml` block before it
`json NAME`, `toml NAME`, `text NAME`   a file of that name, for the page's commands

Run as a module, this file runs the Python of one page: in a process of its own, since a page
may register things.
"""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.client.brokers import BrokerProcess
from tidings import Filter, FilterError, Notification, Schema
from tidings.broker.configuration import Configuration, load_tokens
from tidings.broker.tokens import hashed
from tidings.cli.commands.brokers import up

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    label: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    fences = re.finditer(r"^```(\w+) ?([^\n`]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        Block(page, text.count("\n", 0, f.start()) + 2, f.group(1), f.group(2), f.group(3))
        for f in fences
    ]


ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]


def test_every_block_is_of_a_known_kind() -> None:
    known = {"python", "console", "filter", "json", "toml", "text", "ebnf"}
    assert {b.kind for b in ALL_BLOCKS} <= known


def test_links_lead_to_files_that_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


# -- filters -----------------------------------------------------------------------------------


def schema_for(block: Block) -> Schema | None:
    if block.label != "schema":
        return None
    before = [b for b in ALL_BLOCKS if b.page == block.page and b.line < block.line]
    text = [b.text for b in before if b.kind == "toml"][-1]
    content = tomllib.loads(text)
    return Schema(content.get("attributes"), types=content.get("types"))


def statements(block: Block) -> list[tuple[str, str, str]]:
    """(filter, what is said of it, the rest of the line)."""
    found = []
    filter_text = ""
    said = re.compile(rf"\s+({'|'.join(STATEMENTS)})\s+(.*)")
    for line in block.text.splitlines():
        if not line.strip():
            continue
        if not line[0].isspace():
            filter_text = line
            continue
        match = said.fullmatch(line)
        assert match, f"{block.id}: cannot read {line!r}"
        found.append((filter_text, match.group(1), match.group(2)))
    return found


def says_matches(filter_text: str, rest: str, schema: Schema | None) -> bool:
    return Filter.parse(filter_text, schema=schema).matches(Notification.from_json(rest))


def says_prints(filter_text: str, rest: str, schema: Schema | None) -> bool:
    return str(Filter.parse(filter_text, schema=schema)) == rest


def says_equals(filter_text: str, rest: str, schema: Schema | None) -> bool:
    return Filter.parse(filter_text, schema=schema) == Filter.parse(rest, schema=schema)


def says_covers(filter_text: str, rest: str, schema: Schema | None) -> bool:
    return Filter.parse(filter_text, schema=schema).covers(Filter.parse(rest, schema=schema))


def says_never(filter_text: str, rest: str, schema: Schema | None) -> bool:
    wanted = Filter.parse(filter_text, schema=schema)
    return wanted == Filter.none() and rest in wanted.reasons


def says_error(filter_text: str, rest: str, schema: Schema | None) -> bool:
    with pytest.raises(FilterError) as caught:
        Filter.parse(filter_text, schema=schema)
    return rest in caught.value.reason


STATEMENTS = {
    "matches": says_matches,
    "rejects": lambda *about: not says_matches(*about),
    "prints": says_prints,
    "equals": says_equals,
    "differs from": lambda *about: not says_equals(*about),
    "covers": says_covers,
    "does not cover": lambda *about: not says_covers(*about),
    "never": says_never,
    "error": says_error,
}

SAID = [
    pytest.param(block, *said, id=f"{block.id} {' '.join(said)}"[:90])
    for block in ALL_BLOCKS
    if block.kind == "filter"
    for said in statements(block)
]


@pytest.mark.parametrize(("block", "filter_text", "word", "rest"), SAID)
def test_what_a_page_says_of_a_filter_is_so(
    block: Block, filter_text: str, word: str, rest: str
) -> None:
    wanted = f"{filter_text}\n    {word} {rest}"
    assert STATEMENTS[word](filter_text, rest, schema_for(block)), f"{block.id}\n{wanted}"


# -- commands ----------------------------------------------------------------------------------


@pytest.mark.slow  # each in a process of its own, and there are many
@pytest.mark.parametrize(
    "block", [pytest.param(b, id=b.id) for b in ALL_BLOCKS if b.kind == "console"]
)
def test_commands_print_what_the_page_shows(block: Block, tmp_path: Path) -> None:
    for file in ALL_BLOCKS:
        if file.page == block.page and file.kind in ("json", "toml", "text") and file.label:
            (tmp_path / file.label).write_text(file.text, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "80",
    }
    for command, shown in commands(block.text):
        run = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=60,
        )
        assert run.stdout.strip("\n") == shown.strip("\n"), f"{block.id}: {command}"


def commands(text: str) -> list[tuple[str, str]]:
    """Each command and what is shown as its output."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, shown = found[-1]
            found[-1] = (command, f"{shown}{line}\n")
    return found


# -- configurations ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b, id=b.id)
        for b in ALL_BLOCKS
        if b.page.stem == "operations" and b.kind == "toml"
    ],
)
def test_configurations_that_a_page_shows_are_right(block: Block, tmp_path: Path) -> None:
    file = tmp_path / block.label
    file.write_text(block.text, encoding="utf-8")
    if block.label == "tokens.toml":
        assert len(load_tokens(str(file))) > 0
    elif block.label == "schema.toml":
        assert Schema.load(file).attributes
    else:
        Configuration.load(file)


def test_the_configuration_that_the_help_shows_is_right() -> None:
    text = inspect.getdoc(up) or ""
    shown = text.partition("all of it is optional:")[2].partition("\n\n")[0]
    found = Configuration.parse(inspect.cleandoc(shown).replace("sha256:...", hashed("x")))
    assert found.tls is not None
    assert set(found.links) == {"london", "rome", "oslo"}


# -- Python ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(p, id=p.name) for p in PAGES])
def test_python_of_a_page_does_what_it_shows(page: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.test_docs", str(page)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def run_python(page: Path) -> bool:
    """Whether all Python blocks of the page do what they show."""
    python = [block for block in blocks(page) if block.kind == "python"]
    if all(block.label != "broker" for block in python):
        return do_what_they_show(python, {})
    with TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder))
        broker.start()
        try:
            return do_what_they_show(python, {"url": broker.url})
        finally:
            broker.stop()


def do_what_they_show(python: list[Block], given: dict[str, object]) -> bool:
    """Whether these blocks of a page do, with the names that they are given."""
    names = {"__name__": "__page__", **given}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for block in python:
        if ">>>" in block.text:
            test = doctest.DocTestParser().get_doctest(
                block.text, names, block.id, str(block.page), block.line - 1
            )
            runner.run(test, clear_globs=False)
            names = test.globs
        else:
            exec(
                compile(
                    "\n" * (block.line - 1) + block.text,
                    str(block.page),
                    "exec",
                    dont_inherit=True,
                ),
                names,
            )
    return runner.summarize().failed == 0


if __name__ == "__main__":
    sys.exit(0 if run_python(Path(sys.argv[1])) else 1)
