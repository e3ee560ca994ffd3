"""Bulk subscriptions: what was registered, who wants an event, and how they are told of it.

What belongs here is what tasks do with the table of subscriptions: keep its index, judge a stretch
of events by it, and publish each of them once for those who want it. The query that has tasks do
so is in `delivering`. Nothing here starts Spark or a query.
"""
