"""The doors: how clients and neighbours come in, prove who they are, speak and are cut off.

Sockets, frames, certificates, admission, sessions and links live here, and the limits that keep
one who connects from harming the others. What is said is handed to the `Host`, and nothing here
decides what becomes of an event.
"""
