"""Warming up: load or compile the kernels in the background, while plain Python answers."""

from __future__ import annotations

import threading

_ready = threading.Event()
_started = threading.Lock()
_failure: list[BaseException] = []


def start() -> None:
    """Begin to load the kernels, unless that has begun already."""
    if _started.acquire(blocking=False):
        threading.Thread(target=_load, name="tidings-kernels", daemon=True).start()


def _load() -> None:
    try:
        import tidings.matching.segment  # noqa: F401 - imports and so compiles the kernels
    except BaseException as problem:
        _failure.append(problem)
    _ready.set()


def is_ready() -> bool:
    """Whether the kernels can be used now."""
    return _ready.is_set() and _loaded()


def wait() -> None:
    """Return when the kernels can be used."""
    start()
    _ready.wait()
    _loaded()


def _loaded() -> bool:
    if _failure:
        raise _failure[0]
    return True
