"""Benchmarks: what the requirements promise, measured side by side with what else there is.

`make bench`, or `python -m bench matching --quick`. Each benchmark prints its tables and ends
with its targets, met or missed; `--out` says where figures and plots are kept. Nothing here is
part of the package, and nothing in the package knows of it.
"""
