"""Checks addresses and codes, with limits on failed attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog

from signoff.broker.limits.throttle import Rule, Throttle, hashed, network_of
from signoff.channels.inbox.auth.factors import Factors
from signoff.core.directory.people import Directory, Person, identity_key

log = structlog.get_logger(__name__)

_LIMITS: Final = ((5, timedelta(minutes=15)), (30, timedelta(days=1)))
"""Failed attempts for one person: there are a million codes, and three are valid at a time."""

_PEER_LIMIT: Final = (60, timedelta(minutes=15))
"""Failed attempts from one network: a whole office may have one address."""


class TooManyAttempts(Exception):
    """The code was not checked. Unknown people get the same error."""


class SignIn:
    """Checks addresses and codes."""

    def __init__(self, factors: Factors, throttle: Throttle, directory: Directory) -> None:
        self._factors = factors
        self._throttle = throttle
        self._directory = directory

    async def by_address(self, address: str, code: str, *, peer: str) -> Person | None:
        """Return the person with this address, if the code is theirs.

        Returns:
            None if there is no such person, they have no second factor, or the code is wrong.

        Raises:
            TooManyAttempts: There were too many for this address, or from this client.
        """
        wanted = identity_key(address)
        person = self._directory.find(wanted) if "@" in wanted else None
        rules = [_of_peer(peer), *limited(f"tries:address:{hashed(wanted)}")]
        await self._refuse_too_many(rules, peer)
        # Counted for the person as well, so that an alias gives no further attempts. This limit
        # has no error of its own: it would reveal that two addresses belong to one person.
        more = limited(f"tries:person:{hashed(person.id if person is not None else wanted)}")
        known = person if await self._throttle.allow(*more) else None
        return person if await self._checked(known, code, peer, [*rules, *more]) else None

    async def again(self, person: Person, code: str, *, peer: str) -> bool:
        """Return whether the code of a person who is signed in is right.

        Raises:
            TooManyAttempts: There were too many of this person, or from this client.
        """
        # Counted separately: others can use up the attempts for an address, but not for a session.
        rules = [_of_peer(peer), *limited(f"tries:again:{hashed(person.id)}")]
        await self._refuse_too_many(rules, peer)
        return await self._checked(person, code, peer, rules)

    async def _refuse_too_many(self, rules: Sequence[Rule], peer: str) -> None:
        # Counted before the check, so that the limit holds for concurrent attempts.
        if not await self._throttle.allow(*rules):
            log.warning("inbox.too_many_attempts", peer=peer)
            raise TooManyAttempts

    async def _checked(
        self, person: Person | None, code: str, peer: str, rules: Sequence[Rule]
    ) -> bool:
        right = await self._factors.check(person, code)
        who = person.id if person is not None else ""
        if not right:
            log.warning("inbox.code_refused", person=who, peer=peer)
            return False
        await self._throttle.refund(*rules)
        log.info("inbox.code_taken", person=who, peer=peer)
        return True


def _of_peer(peer: str) -> Rule:
    return Rule(f"tries:peer:{hashed(network_of(peer))}", *_PEER_LIMIT)


def limited(key: str, limits: Sequence[tuple[int, timedelta]] = _LIMITS) -> list[Rule]:
    """Return the rules that limit attempts, by default those for codes."""
    return [Rule(f"{key}:{window.days}d", most, window) for most, window in limits]
