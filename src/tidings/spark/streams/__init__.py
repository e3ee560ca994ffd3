"""Streams: reading stretches of them from brokers, by copying a log or by a subscription.

What belongs here asks a broker where its streams are, and reads the ticks between two places, or
says why they cannot be read. It does so in any process, a task of Spark's or not. Nothing here
decides what is read when, or what becomes of it.
"""
