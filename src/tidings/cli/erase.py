"""`tidings erase`: events that are to be gone from logs and lakes, and a report of what is left."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from tidings.cli.complaints import FAILED, complain, connection_told, counted, remark
from tidings.cli.progress import ProgressLine
from tidings.cli.stopping import exit_code
from tidings.client import Erasure, Login, PlainClient
from tidings.events import Filter, TidingsError
from tidings.protocol.epochs import broker_of

if TYPE_CHECKING:
    from tidings.lakes.erasing import LakeErasure
    from tidings.lakes.lake import Lake

ALL_GONE: Final = 0
SOME_LEFT: Final = 1


def erase(
    filter: str,
    login: Login | None,
    *,
    lakes: Sequence[Path],
    is_dry: bool,
    is_sure: bool,
    reason: str,
    keep_files: bool,
) -> int:
    """Erase what a filter matches, once that is agreed on; returns the exit code."""
    wanted = Filter.parse(filter)
    if not (is_dry or is_sure or _has_terminal()):
        raise TidingsError(
            "this erases for good, and there is no terminal to ask at whether you are sure: "
            "look with --dry-run, then say --yes"
        )
    found = [_Lake(folder) for folder in lakes]
    try:
        with nullcontext() if login is None else login.plain(None, connection_told()) as client:
            erasing = _Erasing(wanted, client, found, reason, keep_files=keep_files)
            if not is_sure or is_dry:
                erasing.count()
                if is_dry:
                    return erasing.report(is_dry=True)
                if not erasing.is_agreed():
                    remark("nothing was erased")
                    return SOME_LEFT
            erasing.erase()
            return erasing.report()
    except KeyboardInterrupt as problem:
        remark("\ninterrupted: what was erased stays so; run it again to go on")
        return exit_code(problem)


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


class _Lake:
    """A lake in which is to be erased."""

    def __init__(self, folder: Path) -> None:
        from tidings.lakes.committed import existing

        self.folder = folder
        self.lake: Lake = existing(folder)
        self.done: LakeErasure | None = None
        self.problem: str | None = None

    def erase(self, filter: Filter, id: str, *, is_dry: bool, keep_files: bool) -> None:
        """Erase, or only count."""
        from tidings.lakes import erasing

        line = ProgressLine()
        told: Callable[[int, int], None] = lambda done, total: line.count(  # noqa: E731
            done, total, f"files of {self.folder}"
        )
        try:
            self.done = erasing.erase(
                self.lake, filter, id, is_dry=is_dry, keep_files=keep_files, told=told
            )
        except TidingsError as problem:
            self.problem = str(problem)
        finally:
            line.clear()


class _Erasing:
    """An erasure by brokers first, so that lakes get nothing of it afterwards, then in lakes."""

    def __init__(
        self,
        filter: Filter,
        client: PlainClient | None,
        lakes: Sequence[_Lake],
        reason: str,
        *,
        keep_files: bool,
    ) -> None:
        self._filter, self._client, self._lakes = filter, client, lakes
        self._reason, self._keep_files = reason, keep_files
        self._brokers: Erasure | None = None

    def count(self) -> None:
        """How much would be erased."""
        self._run(is_dry=True)

    def erase(self) -> None:
        """Do it."""
        self._run(is_dry=False)

    def _run(self, *, is_dry: bool) -> None:
        id = f"erase-{secrets.token_hex(8)}"
        if self._client is not None:
            remark(f"{'looking' if is_dry else 'erasing'} at brokers …")
            self._brokers = self._client.erase(
                self._filter, reason=self._reason, dry_run=is_dry, told=_told
            )
            id = self._brokers.id
        for each in self._lakes:
            each.erase(self._filter, id, is_dry=is_dry, keep_files=self._keep_files)

    def is_agreed(self) -> bool:
        """Whether the user wants it done."""
        places = [f"{name}: {counted(n, 'event')}" for name, n in self._counts().items()]
        total = sum(self._counts().values())
        remark("\n".join(places))
        question = f"Erase {counted(total, 'event')} for good?"
        return typer.confirm(question, default=False, err=True)

    def _counts(self) -> dict[str, int]:
        """By broker, and by lake."""
        counts: dict[str, int] = {}
        if self._brokers is not None:
            for stream, count in self._brokers.erased.items():
                broker = f"broker {broker_of(stream)}"
                counts[broker] = counts.get(broker, 0) + count
        for each in self._lakes:
            if each.done is not None:
                counts[f"lake {each.folder}"] = each.done.erased
        return counts

    # -- the report ----------------------------------------------------------------------------

    def report(self, *, is_dry: bool = False) -> int:
        """Print what was done and what was not; returns the exit code."""
        verb = "would be erased" if is_dry else "erased"
        for place, count in self._counts().items():
            typer.echo(f"{place}: {counted(count, 'event')} {verb}")
        left = [*self._left_at_brokers(), *self._left_in_lakes(is_dry=is_dry)]
        for problem in left:
            complain(problem)
        if self._brokers is None and all(each.done is None for each in self._lakes):
            return FAILED
        if not is_dry:
            for word in self._words():
                remark(word)
        return SOME_LEFT if left else ALL_GONE

    def _left_at_brokers(self) -> list[str]:
        answer = self._brokers
        if answer is None:
            return []
        left = [
            f"broker {name} could not be reached: run this again when it is back"
            for name in answer.unreached
        ]
        left += [
            f"at broker {name} something may be left: {problem}"
            for name, problem in answer.problems.items()
        ]
        known = self._client.lake if self._client is not None else None
        if known and Path(known).absolute() not in {each.lake.path for each in self._lakes}:
            left.append(
                f"the lake {known}, which broker {answer.reached[0]} has told of, was not looked "
                f"at: add --lake {known}"
            )
        return left

    def _left_in_lakes(self, *, is_dry: bool) -> list[str]:
        left = [each.problem for each in self._lakes if each.problem is not None]
        upto = {} if self._brokers is None else self._brokers.upto
        for each in [] if is_dry else self._lakes:
            held = {} if each.done is None else each.done.held
            behind = sorted(s for s, tick in upto.items() if held.get(s, tick) < tick)
            if behind:
                left.append(
                    f"the lake {each.folder} has not come to all that is erased in "
                    f"{', '.join(behind)}: if somebody archives into it at this moment, what was "
                    "read before comes yet. Run this again when it has caught up"
                )
        return left

    def _words(self) -> list[str]:
        words = []
        if self._brokers is not None:
            words.append(f"it is told by the event {self._brokers.record}, as {self._brokers.id}")
        words += [
            f"old files of the lake {each.folder} still have it: run this again without "
            "--keep-files when nobody reads them"
            for each in self._lakes
            if each.done is not None and self._keep_files
        ]
        words.append("not reached: backups, copies of lakes, and what subscribers have heard")
        return words


def _told(answer: Erasure) -> None:
    if not answer.is_done:
        remark(f"{', '.join(answer.reached)} done, {counted(answer.count, 'event')} so far")
