"""Statistics: what a lake's events are like, and what it would cost to merge filters.

What belongs here looks through a lake, by Spark's tasks or alone, and adds up what it finds.
What brokers make of it is in `tidings.routing`; how it is written down or drawn, in the commands.
"""
