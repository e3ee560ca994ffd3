"""Rows of a DataFrame as notifications, by way of plain Python: what columns must agree with."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidings.events import Notification


def notifications(table: pa.Table) -> list[Notification]:
    """The events of a table as `tidings.spark.column` says that rows are read."""
    kinds = {field.name: field.type for field in table.schema}
    return [
        Notification({name: _plain(value, kinds[name]) for name, value in row.items()})
        for row in table.to_pylist()
    ]


def _plain(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, dict):
        return {f.name: _plain(value[f.name], f.type) for f in kind}
    if isinstance(value, list):
        if pa.types.is_nested(kind.value_type):
            return [["whatever"] for _ in value]
        return [_plain(item, kind.value_type) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, Decimal):
        return int(value) if kind.scale == 0 and kind.precision <= 18 else float(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value
