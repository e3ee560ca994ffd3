"""Columns: filters as conditions that Spark itself evaluates."""
