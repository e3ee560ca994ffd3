"""Streams: reading stretches of them from brokers, by copying a log or by a subscription."""
