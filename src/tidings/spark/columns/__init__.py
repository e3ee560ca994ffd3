"""Columns: filters as conditions that Spark itself evaluates.

What belongs here says of a DataFrame's columns what a filter says of a notification, exactly.
Nothing here knows where the rows come from, reads or sends them; `matching` is for many filters.
"""
