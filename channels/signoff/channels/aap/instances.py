"""Instances: agents with a credential, and perhaps a receiver of notifications."""

import base64
import hmac
import re
import secrets
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

import structlog
from pydantic import Field, TypeAdapter

from signoff.broker import api_tokens
from signoff.broker.decisions import OF_ONE, Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible, legible_run
from signoff.broker.work import CancelRequests
from signoff.channels.web.signatures import PREFIX, sha256_of
from signoff.core.approvals.approval import State
from signoff.core.approvals.moves import Actor
from signoff.core.approvals.programs import Cancel
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import ApprovalError, ConfigError, RecordUnreadable, SignoffError
from signoff.core.base.model import Value, stored_json
from signoff.core.directory.people import identity_key

log = structlog.get_logger(__name__)

CHANNEL: Final = "aap"
"""The channel of the moves of programs, in the audit."""

KEPT: Final = timedelta(days=30)
"""How long deletions and updates of instances are remembered."""

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""The names that the command line takes. The name of an instance is also its app."""

_KEY: Final = "instance:"
_NAMESPACE: Final = uuid.UUID("5d0c7f0a-5a52-5a9e-8f7b-6161702d696e")


class Receiver(Value):
    """The receiver of an instance's notifications.

    Attributes:
        url: The URL that they are posted to.
        registration_id: The id by which the receiver finds the secret.
        signing_secret: The secret that signs them (``whsec_``).
        since: Since when the instance has a receiver (UTC).
        verified: Whether it has proven that it expects this registration. Until then it gets no
            notification.
    """

    url: str
    registration_id: str
    signing_secret: str = Field(repr=False)
    since: datetime
    verified: bool = True


class Update(Value):
    """An update of an instance.

    Attributes:
        request: The SHA-256 of the request.
        name: The name after the update.
        receiver: The receiver after the update.
        at: When it was made (UTC).
    """

    request: str
    name: str
    receiver: Receiver | None = None
    at: datetime


class Instance(Value):
    """An agent that uses the protocol.

    Attributes:
        id: A UUID.
        name: Its name.
        app: The app that policies and grants name.
        user: The requester, who never decides.
        token: The id of its API token.
        provisioner: The id of the API token that made it, "" if the command line did.
        request: The SHA-256 of the provisioner's request.
        receiver: The receiver of its notifications, None if it has none.
        updates: Updates by the hash of their keys.
        created_at: When it was made (UTC).
        deleted_at: When it was deleted (UTC).
        version: Counts the commits.
    """

    id: str
    name: str
    app: str
    user: str
    token: str
    provisioner: str = ""
    request: str = ""
    receiver: Receiver | None = None
    updates: dict[str, Update] = Field(default_factory=dict)
    created_at: datetime
    deleted_at: datetime | None = None
    version: int = 0

    @property
    def actor(self) -> Actor:
        """The instance as an actor in the audit."""
        return Actor(None, CHANNEL, {"token": self.token, "instance": self.id}, known_as=self.name)


_INSTANCE: Final = TypeAdapter[Instance | None](Instance)


def instance_id(provisioner: str, key: str) -> str:
    """Return the id of the instance that a provisioner makes with this idempotency key."""
    return str(uuid.uuid5(_NAMESPACE, f"{provisioner}\0{key}"))


def seed_of(provisioner_token: str, instance: str) -> bytes:
    """Return the seed from which the credential of an instance is made.

    The credential is not stored. A repeated request makes the same one again, from the token of
    the provisioner.
    """
    return hmac.digest(provisioner_token.encode(), f"aap:{instance}".encode(), "sha256")


def app_of(name: str) -> str:
    """Return the app of an instance with any name: letters, digits, ``_`` and ``-``."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    return (plain if NAME.match(plain) else f"i-{plain}")[:64].rstrip("-")


def put(change: Change, instance: Instance, *, was: Instance | None) -> Change:
    """Add the write of an instance to a change."""
    return change.put_raw(
        _KEY + instance.id,
        stored_json(instance, exclude="version"),
        was=0 if was is None else was.version,
        ttl=KEPT if instance.deleted_at is not None else None,
    )


async def load(ledger: Ledger, name: str) -> Instance | None:
    """Return an instance by its id, even if it is deleted; None if it does not exist.

    Raises:
        RecordUnreadable: This version cannot read its record.
    """
    return _read(_KEY + name, await ledger.raw(_KEY + name))


async def everyone(ledger: Ledger) -> list[Instance]:
    """Return the instances that are not deleted, the oldest first."""
    keys = await ledger.store.keys(_KEY, "string")
    records = zip(keys, await ledger.store.read(keys), strict=True)
    found = [_read(key, record) for key, record in records]
    there = [one for one in found if one is not None and one.deleted_at is None]
    return sorted(there, key=lambda one: one.created_at)


async def by_name(ledger: Ledger, name: str) -> Instance:
    """Return an instance by its name or id.

    Raises:
        ConfigError: There is none, or there are several.
    """
    found = [one for one in await everyone(ledger) if name in {one.name, one.id}]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(one.id for one in found)
        raise ConfigError(f"There are {len(found)} instances {name!r}. Name one by its id: {ids}.")
    raise ConfigError(f"There is no instance {name!r}. `signoff aap instance list` lists them.")


def new_receiver(url: str, now: datetime) -> Receiver:
    """Return a receiver with a new secret, which proves itself before its first notification."""
    return Receiver(
        url=url,
        registration_id=str(uuid.uuid4()),
        signing_secret=PREFIX + base64.b64encode(secrets.token_bytes(32)).decode(),
        since=now,
        verified=False,
    )


async def create(
    ledger: Ledger, name: str, *, user: str, by: str, receiver: str = ""
) -> tuple[Instance, str]:
    """Make an instance at the command line.

    Args:
        ledger: The ledger.
        name: Its name, which is also its app.
        user: The requester.
        by: The operator, for the audit.
        receiver: The URL to which its notifications go, "" for none.

    Returns:
        The instance, and its credential.

    Raises:
        ConfigError: The name cannot be an app's, or is taken.
    """
    if NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{name!r} cannot be the name of an instance: use letters, digits, - and _, at most "
            "64, beginning with a letter. Policies name it as their app."
        )
    if any(one.name == name for one in await everyone(ledger)):
        raise ConfigError(
            f"There is an instance {name!r} already. `signoff aap instance rotate {name}` makes a "
            "new token for it."
        )
    now, change = await ledger.now(), Change()
    fresh = str(uuid.uuid4())
    token, token_id = api_tokens.issue(
        change, instance=fresh, name=name, app=name, seed=secrets.token_bytes(32), by=by, now=now
    )
    made = Instance(
        id=fresh,
        name=name,
        app=name,
        user=user,
        token=token_id,
        receiver=new_receiver(receiver, now) if receiver else None,
        created_at=now,
    )
    await ledger.commit(put(change, made, was=None))
    log.info("aap.instance_added", instance=fresh, name=name)
    return made.model_copy(update={"version": 1}), token


async def rotate(ledger: Ledger, instance: Instance, *, by: str) -> str:
    """Make a new credential for an instance; the earlier one is no longer valid."""
    change = Change()
    await api_tokens.add_revocation(ledger, change, instance.token, by=by)
    token, token_id = api_tokens.issue(
        change,
        instance=instance.id,
        name=instance.name,
        app=instance.app,
        seed=secrets.token_bytes(32),
        by=by,
        now=await ledger.now(),
    )
    put(change, instance.model_copy(update={"token": token_id}), was=instance)
    await ledger.commit(change)
    return token


async def delete(decisions: Decisions, instance: Instance, *, by: str) -> None:
    """Delete an instance: its token, its pending requests and its notifications end.

    If this process dies meanwhile, the stage `aap` withdraws the rest.
    """
    ledger = decisions.ledger
    if instance.deleted_at is None:
        change = Change()
        await api_tokens.add_revocation(ledger, change, instance.token, by=by)
        gone = instance.model_copy(
            update={"deleted_at": await ledger.now(), "receiver": None, "updates": {}}
        )
        put(change, gone, was=instance).send(CancelRequests(instance=instance.id))
        await ledger.commit(change)
        log.info("aap.instance_removed", instance=instance.id, name=instance.name)
    await cancel_requests(decisions, instance)


async def delete_of(decisions: Decisions, names: Collection[str], *, by: str) -> None:
    """Delete the instances whose requester is a person, under any of the names of that person."""
    own = {identity_key(one) for one in names}
    for instance in await everyone(decisions.ledger):
        if identity_key(instance.user) in own:
            await delete(decisions, instance, by=by)


async def cancel_requests(decisions: Decisions, instance: Instance) -> None:
    """Withdraw the pending requests of an instance.

    Raises:
        LedgerError, RunNotFound: Some could not be read or withdrawn. The others are.
    """
    ledger, failed = decisions.ledger, list[SignoffError]()
    ids = await ledger.session_run_ids(instance.app, instance.user, instance.id)
    records = await ledger.store.read([f"run:{one}" for one in ids])
    for run_id, record in zip(ids, records, strict=True):
        try:
            run = legible_run(run_id, record) if record is not None else None
        except RecordUnreadable as error:
            log.warning("aap.not_withdrawn", run=run_id, why=str(error))
            failed.append(error)
            continue
        for name in run.approvals if run is not None and run.state is RunState.PAUSED else ():
            try:
                await _withdraw(decisions, instance, name)
            except OF_ONE as error:
                failed.append(error)
    if failed:
        raise failed[0]


async def _withdraw(decisions: Decisions, instance: Instance, name: str) -> None:
    """Withdraw an approval if it is pending; one that has ended meanwhile stays as it is.

    Raises:
        LedgerError, RunNotFound: It could not be read or withdrawn.
    """
    try:
        approval = await decisions.ledger.approval(name)
        if approval.state is State.PENDING:
            await decisions.take(name, Cancel(), instance.actor)
    except OF_ONE as error:
        log.warning("aap.not_withdrawn", approval=name, why=str(error))
        if not isinstance(error, ApprovalError):
            raise


def with_update(instance: Instance, key: str, update: Update, now: datetime) -> Instance:
    """Return an instance after an update; updates that may still be repeated are kept."""
    kept: Mapping[str, Update] = {
        name: one for name, one in instance.updates.items() if now - one.at < KEPT
    }
    after = {**kept, sha256_of(key): update}
    return instance.model_copy(
        update={"name": update.name, "receiver": update.receiver, "updates": after}
    )


def _read(key: str, record: tuple[int, str] | None) -> Instance | None:
    found = legible(_INSTANCE, key, record, None)
    if record is None or found is None:
        return None
    return found.model_copy(update={"version": record[0]})
