"""Strings: sets of strings by order, by pattern and by event type, combined.

A set of strings is an `Intervals` narrowed by tests that intervals cannot express: LIKE patterns
and membership in a type. Here are the set, each kind of test, and what tests imply about each
other. Prefixes and exact strings are intervals, never tests, and a pattern that begins with literal
text also narrows the intervals, so that indexes can use them.

The algebra is exact for what intervals express. With tests, `matches`, `intersect` and
`complement` stay exact; `covers` may miss a covering that only the combination of several tests
implies, and `overlaps` may claim an overlap between patterns that no string satisfies.
"""

from tidings.events.strings.like import ANY, Like
from tidings.events.strings.narrowing import StringTest
from tidings.events.strings.strings import Strings
from tidings.events.strings.types import NO_TYPES, IsA, Types

__all__ = ["ANY", "NO_TYPES", "IsA", "Like", "StringTest", "Strings", "Types"]
