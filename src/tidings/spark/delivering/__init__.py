"""Delivering: the query that serves bulk subscriptions, and where what it delivers can go."""
