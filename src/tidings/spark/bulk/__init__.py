"""Bulk subscriptions: what was registered, who wants an event, and how they get it."""
