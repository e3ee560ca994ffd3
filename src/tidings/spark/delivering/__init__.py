"""Delivering: the query that serves bulk subscriptions.

What belongs here starts that query, keeps the table of subscriptions up to date meanwhile, adds up
how it goes, and takes what it delivers into an inbox. Who wants what, and how it is published once,
is in `bulk`; how the query's batches are planned and read, in `format`.
"""
