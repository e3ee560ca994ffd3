"""Statistics: what a lake's events are like, and what it would cost to merge filters."""
