"""Bulk subscriptions: what was registered, who wants an event, and how they are told of it."""
