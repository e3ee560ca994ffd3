"""The format "tidings": events of brokers and lakes as DataFrames, and rows to publish."""
