"""Sending: how a set of filters comes to those who work on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tidings.events import Filter
from tidings.spark.matching import filter_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_folders: list[TemporaryDirectory[str]] = []  # until the program ends: executors fetch from there


def sent(spark: SparkSession, filters: Mapping[Any, Filter], folder: str | Path | None) -> Path:
    """Write them as a file, to a folder that all machines see or for Spark to send; where it is."""
    if folder is not None:
        return filter_file.write(filters, Path(folder)).absolute()
    if not _folders:
        _folders.append(TemporaryDirectory(prefix="tidings-filters-"))
    path = filter_file.write(filters, Path(_folders[0].name))
    context = spark.sparkContext
    if not any(sent.endswith(path.name) for sent in context.listFiles):
        context.addFile(str(path))
    return path


def received(path: Path) -> Path:
    """Where a task finds what was sent."""
    from pyspark import SparkFiles

    return Path(SparkFiles.get(path.name))
