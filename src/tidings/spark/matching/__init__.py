"""Matching: which of many filters the events of a lake or a DataFrame satisfy."""
