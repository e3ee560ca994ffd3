"""`tidings explain`: what a filter admits, and how two filters relate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from tidings.cli.complaints import shortened
from tidings.cli.pictures import label, picture
from tidings.events import Conjunction, Constraint, Filter, Schema, ValueSet
from tidings.events.intervals import BOOLEANS, Intervals
from tidings.events.phrases import name_text
from tidings.events.sets import Sets
from tidings.events.strings import IsA, Like, Strings, StringTest
from tidings.events.values import scalar

HEADING: Final = "bold"
NAME: Final = "cyan"
ASIDE: Final = "dim"

_MOST_ALTERNATIVES: Final = 10
_LONGEST_NAME: Final = 24


# -- one filter --------------------------------------------------------------------------------


def explain_filter(wanted: Filter, out: Console) -> None:
    """Print a filter's normal form, what its attributes may be, and an example."""
    _section(out, "Normal form", [str(wanted)])
    if wanted == Filter.none():
        _section(out, "It can never match", wanted.reasons or ["it says so itself"])
        return
    if wanted == Filter.all():
        _section(out, "It matches every notification", [])
        return
    alternatives = wanted.conjunctions
    for number, conjunction in enumerate(alternatives[:_MOST_ALTERNATIVES]):
        _heading(out, "or" if number else "It admits")
        show_conjunction(conjunction, out)
    if len(alternatives) > _MOST_ALTERNATIVES:
        out.print(Text(f"  and {len(alternatives) - _MOST_ALTERNATIVES:,} more", ASIDE), end="\n\n")
    _section(out, "For example", [_example(wanted)])


def show_conjunction(conjunction: Conjunction, out: Console) -> None:
    """Print what each attribute may be: its name, its domain, a picture or words."""
    rows = [
        ("" if number else _shown_name(name), domain, lines)
        for name, constraint in conjunction.constraints.items()
        for number, (domain, lines) in enumerate(described(constraint, out.width))
    ]
    _table(out, rows)


def described(constraint: Constraint, width: int = 80) -> list[tuple[str, list[str]]]:
    """For each domain of which values are admitted: its name, and lines that tell which."""
    found = [
        (domain, _picture_or_words(part, width) if not part.is_empty else ["none"])
        for domain, part in constraint.parts.items()
    ]
    if constraint.others:
        found.append(("other" if found else "any", ["anything"]))
    if constraint.absent:
        found.append(("absent", ["it may be missing" if found else "it must be missing"]))
    return found


def _picture_or_words(part: ValueSet, width: int) -> list[str]:
    words = in_words(part)
    drawn = _drawable(part)
    if drawn is None:
        return words
    return [*picture(drawn, width=_picture_width(width)), *words]


def _picture_width(width: int) -> int:
    return max(40, min(width, 100) - 20)


def _drawable(part: ValueSet) -> Intervals | None:
    """What of the set can be drawn on a line, if that says anything."""
    if isinstance(part, Strings):
        part = part.intervals if not part.intervals.is_full else part
    if isinstance(part, Intervals) and part.order is not BOOLEANS and not part.is_full:
        return part
    return None


def in_words(part: ValueSet) -> list[str]:
    """What a picture of the set does not show, or all of it if there is no picture."""
    if part.is_full:
        return ["any"]
    if isinstance(part, Strings):
        tests = [(t, True) for t in part.passing] + [(t, False) for t in part.failing]
        return [_test_in_words(t, passes) for t, passes in sorted(tests, key=lambda t: t[0].text)]
    if isinstance(part, Sets):
        return _set_in_words(part)
    if isinstance(part, Intervals):
        return [" or ".join(map(label, part.values() or ()))] if part.order is BOOLEANS else []
    return [part.phrase("it").text]


def _test_in_words(test: StringTest, passes: bool) -> str:
    if isinstance(test, IsA):
        said = f"{label(test.name)} or a type below it"
        return f"is {said}" if passes else f"is not {said}"
    if isinstance(test, Like):
        match test.parts:
            case ((True, "%"), (False, text)):
                return f"{'ends' if passes else 'does not end'} with {label(text)}"
            case ((True, "%"), (False, text), (True, "%")):
                return f"{'contains' if passes else 'does not contain'} {label(text)}"
    return f"{'is' if passes else 'is not'} {test.text}"


def _set_in_words(part: Sets) -> list[str]:
    words = []
    if part.lower:
        words.append(f"contains {_listed(part.lower, 'and')}")
    if not part.upper.others:
        only = part.upper.listed
        words.append(f"contains nothing but {_listed(only, 'and')}" if only else "is empty")
    elif part.upper.listed:
        words.append(f"does not contain {_listed(part.upper.listed, 'or')}")
    for hit in sorted(part.hits, key=lambda h: h.sort_key):
        if hit.others:
            words.append(f"contains something besides {_listed(hit.listed, 'and')}")
        else:
            words.append(f"contains one of {_listed(hit.listed, 'or')}, or several")
    return words


def _listed(items: Iterable[object], last: str, most: int = 8) -> str:
    shown = sorted(label(scalar(item)) for item in items)  # type: ignore[arg-type]
    if len(shown) > most:
        shown = [*shown[: most - 1], f"{len(shown) - most + 1:,} more"]
    return f" {last} ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]])) or "nothing"


# -- two filters -------------------------------------------------------------------------------


def explain_pair(
    first: Filter, second: Filter, out: Console, *, schema: Schema | None = None
) -> None:
    """Print how two filters relate, what both admit, and their merger."""
    _table(out, [("first", "", [str(first)]), ("second", "", [str(second)])])
    both = first.intersect(second)
    verdict, remark = relation(first, second)
    out.print(Text.assemble((verdict, HEADING), f" {remark}"), end="\n\n")
    if len(first.conjunctions) == len(second.conjunctions) == 1:
        _show_side_by_side(first.conjunctions[0], second.conjunctions[0], out)
    if both == Filter.none():
        reasons = Filter.parse(f"({first}) AND ({second})", schema=schema).reasons
        _section(out, "Why", reasons or first.reasons or second.reasons)
    else:
        _section(out, "Both admit", [str(both), f"for example {_example(both)}"])
    merger = first.merge(second)
    if merger is not None:
        _section(out, "Merged into one", [str(merger)])
    else:
        said = "no single conjunction admits just what either admits; with OR, they are"
        _section(out, "Merged into one", [said, str(first.union(second))])


class Relation(NamedTuple):
    """How two filters relate."""

    verdict: str
    remark: str


def relation(first: Filter, second: Filter) -> Relation:
    """What to say of two filters; it never claims more than is sure.

    >>> print(relation(Filter.parse("x > 1"), Filter.parse("x > 2")).verdict)
    The first covers the second.
    """
    for which, filter in (("first", first), ("second", second)):
        if filter == Filter.none():
            return Relation(f"The {which} can never match.", "So it is covered by every filter.")
    over, under = first.covers(second), second.covers(first)
    if over and under:
        return Relation("They are equal.", "Each admits just what the other admits.")
    if over:
        return Relation("The first covers the second.", "It admits all that the second admits.")
    if under:
        return Relation("The first is covered by the second.", "It admits nothing more than that.")
    if not first.overlaps(second):
        return Relation("They are disjoint.", "No notification satisfies both.")
    if first.intersect(second).example() is None:
        return Relation("They may overlap.", "No notification that satisfies both was found.")
    if _is_exact(first) and _is_exact(second):
        return Relation("They overlap.", "Each also admits what the other does not.")
    return Relation("They overlap.", "Neither was found to cover the other.")


def _is_exact(filter: Filter) -> bool:
    """Whether `covers` decides every question about it: see `Filter` and `Strings`."""
    return len(filter.conjunctions) == 1 and not any(
        isinstance(part, Strings) and (part.passing or part.failing)
        for constraint in filter.conjunctions[0].constraints.values()
        for part in constraint.parts.values()
    )


def _show_side_by_side(first: Conjunction, second: Conjunction, out: Console) -> None:
    rows: list[tuple[str, str, list[str]]] = []
    for name in sorted({*first.constraints, *second.constraints}):
        rows += _compared(name, first[name], second[name], out.width)
    _table(out, rows)


def _compared(
    name: str, one: Constraint, other: Constraint, width: int
) -> Iterator[tuple[str, str, list[str]]]:
    parts = [_only_drawing(one), _only_drawing(other)]
    if parts[0] is not None and parts[1] is not None and parts[0].domain == parts[1].domain:
        above, below, labels = picture(parts[0], parts[1], width=_picture_width(width))
        yield (_shown_name(name), "first", [above])
        yield ("", "second", [below, labels])
        return
    for said, constraint in (("first", one), ("second", other)):
        lines = ["anything, or missing"]
        if not constraint.is_full:
            choices = described(constraint, width)
            lines = [
                line
                for domain, about in choices
                for line in ([f"{domain}:", *about] if len(choices) > 1 else about)
            ]
        yield (_shown_name(name) if said == "first" else "", said, lines)


def _only_drawing(constraint: Constraint) -> Intervals | None:
    """The intervals, if the constraint says nothing that they do not show."""
    if constraint.others or constraint.absent or len(constraint.parts) != 1:
        return None
    (part,) = constraint.parts.values()
    return _drawable(part) if not in_words(part) else None


# -- laying out --------------------------------------------------------------------------------


def _example(filter: Filter) -> str:
    found = filter.example()
    return (
        "none was found; its patterns may exclude each other" if found is None else found.to_json()
    )


def _shown_name(name: str) -> str:
    return shortened(name_text(name), _LONGEST_NAME)


def _heading(out: Console, title: str) -> None:
    out.print(Text(title, HEADING))


def _section(out: Console, title: str, lines: Iterable[str]) -> None:
    _heading(out, title)
    for line in lines:
        out.print(Text(f"  {line}"))
    out.print()


def _table(out: Console, rows: Sequence[tuple[str, str, list[str]]]) -> None:
    """Two columns of words and one of lines, which are not wrapped."""
    names = max((len(name) for name, _, _ in rows), default=0)
    words = max((len(word) for _, word, _ in rows), default=0)
    for name, word, lines in rows:
        margin = Text.assemble("  ", (f"{name:{names}}", NAME), "  ", (f"{word:{words}}", ASIDE))
        for number, line in enumerate(lines):
            before = margin if number == 0 else Text(" " * len(margin))
            gap = "  " if words else ""
            out.print(Text.assemble(before, gap, line))
    out.print()
