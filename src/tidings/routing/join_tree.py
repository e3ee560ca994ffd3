"""Join trees: the join of many constraints, kept up to date by few joins."""

from __future__ import annotations

from collections.abc import Callable

from tidings.events import Constraint

Join = Callable[[Constraint, Constraint], Constraint]


class JoinTree:
    """The join of a multiset of constraints, for a join that depends on no order.

    A balanced binary tree in an array: node k is the join of nodes 2k and 2k + 1, and the leaves
    stand at the end, in whatever order they came. A change renews the nodes above one leaf, and
    stops at the first of them that stays as it was.
    """

    __slots__ = ("_counts", "_free", "_join", "_leaves", "_nodes")

    def __init__(self, join: Join) -> None:
        self._join = join
        self._nodes: list[Constraint | None] = [None, None]
        self._leaves: dict[Constraint, int] = {}
        self._counts: dict[Constraint, int] = {}
        """The number of copies of each constraint that is there more than once."""
        self._free: list[int] = [1]

    def __len__(self) -> int:
        """How many different ones there are."""
        return len(self._leaves)

    @property
    def root(self) -> Constraint | None:
        """The join of all; None if there are none."""
        return self._nodes[1]

    def add(self, constraint: Constraint) -> None:
        if constraint in self._leaves:
            self._counts[constraint] = self._counts.get(constraint, 1) + 1
            return
        if not self._free:
            self._grow()
        leaf = self._leaves[constraint] = self._free.pop()
        self._nodes[leaf] = constraint
        self._renew(leaf)

    def remove(self, constraint: Constraint) -> None:
        count = self._counts.get(constraint, 1)
        if count > 1:
            self._counts[constraint] = count - 1
            return
        self._counts.pop(constraint, None)
        leaf = self._leaves.pop(constraint)
        self._free.append(leaf)
        self._nodes[leaf] = None
        self._renew(leaf)

    def _renew(self, node: int) -> None:
        nodes = self._nodes
        while node > 1:
            node //= 2
            joint = self._joint(node)
            if joint == nodes[node]:
                return
            nodes[node] = joint

    def _joint(self, node: int) -> Constraint | None:
        one, other = self._nodes[2 * node], self._nodes[2 * node + 1]
        if one is None or other is None:
            return one or other
        return self._join(one, other)

    def _grow(self) -> None:
        """Twice the leaves: the old tree becomes the left half of the new one."""
        old, size = self._nodes, len(self._nodes) // 2
        self._nodes = [None] * (4 * size)
        width = 1
        while width <= size:  # level by level: nodes width … 2·width-1 go below node 2
            self._nodes[2 * width : 3 * width] = old[width : 2 * width]
            width *= 2
        self._nodes[1] = old[1]
        self._leaves = {c: leaf + size for c, leaf in self._leaves.items()}
        self._free = list(range(4 * size - 1, 3 * size - 1, -1))
