"""Quotas: how much of a node a client may take up, and all clients of a principal together."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import msgspec

from tidings.delivery.ages import FORGOTTEN, Ages, principal_of
from tidings.protocol.parts import Kernel
from tidings.protocol.requests import (
    ACCESS,
    Advertise,
    Attach,
    Refused,
    RequestBody,
    Subscribe,
    Watch,
)


class Quota(msgspec.Struct, frozen=True):
    """The most that there may be."""

    subscriptions: float = inf
    """Subscriptions, watches and advertisements of a session, together."""
    durables: float = inf
    """Durable subscriptions of a principal, whether they are read or not."""
    publishers: float = inf
    """Names under which clients of a principal have published."""


class Quotas:
    """Refuses what would be too much. A name is its principal's up to the first `/`."""

    def __init__(self, kernel: Kernel, quota: Quota, durables: Ages, publishers: Ages) -> None:
        self._kernel, self._quota = kernel, quota
        self._durables, self._publishers = durables, publishers
        self._checks: dict[type, Callable[[str, Any], Refused | None]] = {
            Attach: self._attach,
            Subscribe: self._subscribe,
            Watch: self._begin,
            Advertise: self._begin,
        }

    def step(self, session: str, body: RequestBody) -> RequestBody | Refused:
        """What is asked, unless it is too much."""
        check = self._checks.get(body.__class__)
        refusal = None if check is None else check(session, body)
        return body if refusal is None else refusal

    def no_name(self, name: str) -> str | None:
        """Why nothing can be published under a name, if so."""
        if name in self._publishers:
            return None
        whose, most = principal_of(name), self._quota.publishers
        if self._publishers.counts.get(whose, 0) < most:
            return None
        return (
            f"clients of {whose} have published under {most:.0f} names, "
            "which is all that they may have at this broker ([limits] publishers); use one of "
            "them, or wait: a name goes when a client without one of its own takes leave, and "
            f"when nobody has used it for {FORGOTTEN} days"
        )

    def _attach(self, session: str, body: Attach) -> Refused | None:
        refusal = self.no_name(body.name or session) if body.instance else None
        if refusal is not None:
            return Refused(ACCESS, refusal)
        return self._no_room("attach", len(body.subscriptions) + len(body.advertisements))

    def _subscribe(self, session: str, body: Subscribe) -> Refused | None:
        refusal = self._begin(session, body)
        if refusal is None and body.durable is not None:
            refusal = self._no_durable(body.id, body.durable)
        return refusal

    def _begin(self, session: str, body: Subscribe | Watch | Advertise) -> Refused | None:
        known = self._kernel.sessions.get(session)
        if known is None:
            return None
        return self._no_room(body.id, self._kernel.parts.standing(known, besides=body.id) + 1)

    def _no_room(self, id: str, wanted: int) -> Refused | None:
        most = self._quota.subscriptions
        if wanted <= most:
            return None
        return Refused(
            id,
            f"a session has at most {most:.0f} subscriptions, watches and advertisements; "
            "end one first, or join several by OR",
        )

    def _no_durable(self, id: str, name: str) -> Refused | None:
        whose, most = principal_of(name), self._quota.durables
        if name in self._durables or self._durables.counts.get(whose, 0) < most:
            return None
        return Refused(
            id,
            f"{whose} has all the {most:.0f} durable subscriptions that it may have at this "
            "broker ([limits] durables); forget one first (`tidings durables forget "
            f"NAME`). What nobody uses for {FORGOTTEN} days is forgotten by itself",
        )
