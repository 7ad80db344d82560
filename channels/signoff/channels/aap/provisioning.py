"""Provisioners create, update and delete instances with the protocol."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import structlog

from signoff.broker import api_tokens
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.limits.throttle import Rule, Throttle, hashed
from signoff.channels.aap import instances, wire
from signoff.channels.aap.faults import Fault, invalid, not_found
from signoff.channels.aap.instances import Instance, Receiver, Update
from signoff.channels.aap.notifications import TIMEOUT, Receivers
from signoff.channels.aap.wire import DeliveryInput, Provision
from signoff.channels.web.signatures import sha256_of
from signoff.core.access.api_tokens import ANYBODY, Access

log = structlog.get_logger(__name__)

_VERIFIED: Final = 30
_PROVISIONED: Final = 60
_WHILE: Final = timedelta(minutes=15)
_LEASE: Final = 30.0
_REPLACED: Final = (
    "The credential of this instance was rotated or revoked and is no longer valid. Ask the "
    "operator for the new one, or make another instance with another Idempotency-Key."
)


class Provisioning:
    """Handles the requests of provisioners."""

    def __init__(self, decisions: Decisions, receivers: Receivers) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._receivers = receivers
        self._throttle = Throttle(decisions.ledger.store)

    async def create(
        self, access: Access, token: str, key: str, body: bytes
    ) -> tuple[dict[str, object], bool]:
        """Make an instance; return the response, and whether the instance is new.

        Args:
            access: The provisioner.
            token: Its API token.
            key: The idempotency key.
            body: The request.

        Raises:
            Fault: The request has the wrong form or is not allowed, its receiver is not verified,
                or it is repeated and the credential that it made is no longer valid.
        """
        wanted = wire.read(Provision, body)
        name = instances.instance_id(access.id, key)
        mark = _mark(body)
        async with self._alone(name):
            found = await instances.load(self._ledger, name)
            if found is None:
                found = await self._made(access, token, name, wanted, mark)
                return _response(found, _credential(token, name)), True
        if found.request != mark:
            raise _conflict()
        if found.deleted_at is not None:
            raise Fault(409, "instance_deleted", "The instance has been deleted.")
        credential = _credential(token, name)
        if await api_tokens.find(self._ledger, credential) is None:
            raise Fault(409, "credential_replaced", _REPLACED)
        return _response(found, credential), False

    async def _made(
        self, access: Access, token: str, name: str, wanted: Provision, mark: str
    ) -> Instance:
        called = wanted.instance_name or f"instance-{name[:8]}"
        app = instances.app_of(called)
        if not access.may_use(app):
            raise Fault(403, "app_not_allowed", f"This token may not make an instance for {app!r}.")
        await self._slow_down(access, "made", _PROVISIONED)
        now = await self._ledger.now()
        receiver = await self._verified(access, name, wanted.delivery, now)
        user = access.person or next((one for one in access.users if one != ANYBODY), called)
        change = Change()
        by, seed = access.person or access.shown, instances.seed_of(token, name)
        _, token_id = api_tokens.issue(
            change, instance=name, name=called, app=app, seed=seed, by=by, now=now
        )
        made = Instance(
            id=name,
            name=called,
            app=app,
            user=user,
            token=token_id,
            provisioner=access.id,
            request=mark,
            receiver=receiver,
            created_at=now,
        )
        await self._ledger.commit(instances.put(change, made, was=None))
        log.info("aap.instance_made", instance=name, name=called, token=access.id)
        return made

    async def show(self, access: Access, name: str) -> dict[str, object]:
        """Return an instance of the provisioner.

        Raises:
            Fault: There is none.
        """
        return shape(await self._own(access, name))

    async def update(self, access: Access, name: str, key: str, body: bytes) -> dict[str, object]:
        """Rename an instance, or replace or remove its receiver.

        Raises:
            Fault: It has the wrong form, there is no such instance, or its receiver is not
                verified; nothing was changed.
        """
        sent = wire.loads(body)
        removes = isinstance(sent, dict) and "delivery" in sent and sent["delivery"] is None
        given = {one: sent[one] for one in sent if one != "delivery"} if removes else sent
        wanted = wire.validated(Provision, given)
        if not sent:
            raise invalid("Name at least one field to change.")
        mark = _mark(body)
        async with self._alone(name):
            was = await self._own(access, name)
            if (done := was.updates.get(sha256_of(key))) is not None:
                if done.request != mark:
                    raise _conflict()
                replay = {"name": done.name, "receiver": done.receiver}
                return shape(was.model_copy(update=replay))
            now = await self._ledger.now()
            receiver = None if removes else was.receiver
            if wanted.delivery is not None:
                receiver = await self._verified(access, name, wanted.delivery, now, was)
            called = wanted.instance_name or was.name
            update = Update(request=mark, name=called, receiver=receiver, at=now)
            after = instances.with_update(was, key, update, now)
            await self._ledger.commit(instances.put(Change(), after, was=was))
        return shape(after)

    async def delete(self, access: Access, name: str) -> None:
        """Delete an instance and withdraw its requests. It may be repeated.

        Raises:
            Fault: There is none.
        """
        async with self._alone(name):
            found = await self._own(access, name, deleted=True)
            by = access.person or access.shown
            await instances.delete(self._decisions, found, by=by)

    async def _own(self, access: Access, name: str, *, deleted: bool = False) -> Instance:
        found = await instances.load(self._ledger, name)
        if found is None or found.provisioner != access.id:
            raise not_found()
        if found.deleted_at is not None and not deleted:
            raise not_found()
        return found

    async def _verified(
        self,
        access: Access,
        name: str,
        delivery: DeliveryInput | None,
        now: datetime,
        was: Instance | None = None,
    ) -> Receiver | None:
        if delivery is None:
            return None
        if delivery.type != "webhook":
            raise invalid(
                "Only the type webhook is supported.", "delivery.type", "unsupported_delivery_type"
            )
        self._receivers.require_url(delivery.url)
        await self._slow_down(access, "verified", _VERIFIED)
        before = was.receiver if was is not None else None
        receiver = Receiver(
            url=delivery.url,
            registration_id=delivery.registration_id,
            signing_secret=delivery.signing_secret,
            since=before.since if before is not None else now,
        )
        await self._receivers.verify(receiver, name, now)
        return receiver

    async def _slow_down(self, access: Access, what: str, most: int) -> None:
        rule = Rule(f"rate:aap:{hashed(f'{what}:{access.id}')}", most, _WHILE)
        if wait := await self._throttle.pause(rule):
            words = f"A provisioner may do this {most} times in a quarter of an hour."
            raise Fault(429, "too_many_requests", words, retry_after=int(wait) + 1)

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """Let one request at a time change an instance; the others wait."""
        key, token = f"lease:instance:{name}", secrets.token_hex(8)
        try:
            async with asyncio.timeout(2 * TIMEOUT):
                while not await self._ledger.take_lease(key, token, lease=_LEASE):  # noqa: ASYNC110 -- of other processes
                    await asyncio.sleep(0.1)
        except TimeoutError as error:
            raise Fault(503, "in_progress", "The same instance is being changed.") from error
        try:
            yield
        finally:
            await self._ledger.release_lease(key, token)


def shape(instance: Instance) -> dict[str, object]:
    """Return an instance in the form of the protocol, without secrets."""
    found: dict[str, object] = {"id": instance.id, "name": instance.name}
    if (receiver := instance.receiver) is not None:
        found["delivery"] = {
            "type": "webhook",
            "url": receiver.url,
            "registration_id": receiver.registration_id,
        }
    return found


def _response(instance: Instance, token: str) -> dict[str, object]:
    return {"instance": shape(instance), "credential": {"token": token}}


def _credential(token: str, name: str) -> str:
    return api_tokens.token_of(instances.seed_of(token, name))[0]


def _mark(body: bytes) -> str:
    """Return a hash of the values that were sent, the same for any order of the members."""
    return sha256_of(json.dumps(wire.loads(body), sort_keys=True, default=str))


def _conflict() -> Fault:
    return Fault(
        409, "idempotency_conflict", "The idempotency key was already used for something else."
    )
