"""The checks of `signoff doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from signoff.broker.archive.anchor import read_anchor
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.directory.absences import People
from signoff.broker.doorbells.celery import make_celery
from signoff.broker.freezes import Freezes
from signoff.broker.heartbeat import alive, states
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import DEAD
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store, to_ms
from signoff.broker.monitoring.gauges import Known, Stage, measure
from signoff.broker.server.health import redis_doubts, redis_problems
from signoff.broker.timers.lag import Lag, lag
from signoff.broker.timers.poison import poisoned
from signoff.channels.custom import added_channels
from signoff.channels.email.authentication.lookup import Txt
from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.inbound.quarantine import KEPT, in_quarantine
from signoff.channels.email.outbound.smtp import SmtpSender
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import Answering
from signoff.cli import log as logs
from signoff.cli.composition.kinds import KINDS, host_of
from signoff.cli.composition.receipts import open_receipts, private_file
from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.brokers import BrokerUnavailable, require_broker
from signoff.cli.doctor.finding import Finding
from signoff.cli.doctor.inbox import about_inbox
from signoff.cli.doctor.loading import AgentLoading, LoadingFailed
from signoff.cli.doctor.rules import Tools, about_rules
from signoff.cli.doctor.sessions import about_sessions
from signoff.core.base.durations import format_duration
from signoff.core.base.errors import (
    ArchiveBroken,
    ConfigError,
    LedgerUnavailable,
    MailboxError,
    SignoffError,
)
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import EmailProof, Fallback, Policy
from signoff.core.routing.vacancies import vacancies
from signoff.worker.agent_folders import app_names

_PATIENCE = 10.0
_LOGIN = " and takes the login"
_MOST_DOMAINS = 5
_SEVERAL = 2
_MOST_SEATS = 10
_CLOCK_STEP = timedelta(minutes=1)
_WAITS = timedelta(minutes=5)
_LEVELS = {
    EmailProof.TOKEN: "it came to the secret address of the card",
    EmailProof.TOKEN_FROM: "it came to the secret address of the card, from the approver's address",
    EmailProof.TOKEN_FROM_DMARC: "it came to the secret address of the card, from the approver's "
    "address, and that domain vouches for it",
}


def of_errors(errors: ConfigErrors) -> list[Finding]:
    """Return the findings about invalid settings; without settings, nothing else can be checked."""
    return [Finding("settings", "broken", str(fault)) for fault in errors.faults]


async def diagnose(settings: Settings, loading: AgentLoading | None = None) -> list[Finding]:
    """Run all checks and return the findings; nothing is changed and no mail is sent.

    Args:
        settings: The settings to check.
        loading: The process that loads the agents; None starts one.
    """
    ledger = Ledger(Store.open(settings.redis_url, prefix=settings.redis.prefix, size=4))
    try:
        # Concurrently: each check mostly waits for another server or process.
        mail = asyncio.gather(_dkim(settings), _imap(settings, ledger), _dns(settings))
        servers = asyncio.gather(
            _smtp(settings, ledger), _broker(settings, ledger), about_sessions(settings)
        )
        (
            in_redis,
            slack,
            (dkim, imap, dns),
            (smtp, broker, sessions),
            seen,
            found,
        ) = await asyncio.gather(
            _of_ledger(ledger, settings),
            _slack(settings),
            mail,
            servers,
            _present(ledger, settings),
            asyncio.to_thread(_agents, settings, loading),
        )
    finally:
        await ledger.close()
    agents, tools = found
    rules = [*about_rules(settings, tools, *seen)]
    findings = [*_settings(settings), *in_redis, *imap, broker, sessions, *agents, *rules]
    findings += [smtp, *dkim]
    return [*findings, *slack, *own_channels(settings), *_proof(settings), *dns]


async def _present(ledger: Ledger, settings: Settings) -> tuple[Directory, datetime]:
    """Return the people with their absences, and the time; those of the settings without Redis."""
    try:
        return await People(ledger, settings.everybody).directory(), await ledger.now()
    except LedgerUnavailable:
        return settings.everybody, datetime.now(UTC)


async def _of_ledger(ledger: Ledger, settings: Settings) -> list[Finding]:
    return [finding async for finding in _ledger(ledger, settings)]


def _settings(settings: Settings) -> list[Finding]:
    faults = check(settings)
    where = settings.file or "no file: environment and defaults"
    if not faults:
        return [Finding("settings", "good", str(where))]
    return [
        Finding("settings", "broken" if one.severity == "error" else "warning", str(one))
        for one in faults
    ]


async def _ledger(ledger: Ledger, settings: Settings) -> AsyncIterator[Finding]:
    url = logs.hide_passwords(settings.redis_url)
    try:
        problems = await redis_problems(ledger)
        for problem in problems:
            yield Finding("redis", "broken", problem)
        doubts = await redis_doubts(ledger)
        for doubt in doubts:
            yield Finding("redis", "warning", doubt)
        if not problems and not doubts:
            yield Finding("redis", "good", f"{url} keeps what it acknowledges")
        async for finding in clock(ledger, datetime.now(UTC)):
            yield finding
        living = await alive(ledger)
        for finding in [*_processes(living), *_code(settings, living.get("worker", []))]:
            yield finding
        for one in await Freezes(ledger).all():
            text = f"{one.by} has frozen {one.stops}: {one.why}. `signoff thaw` ends this"
            yield Finding("freezes", "warning", text)
        said = await states(ledger)
        for finding in [*_rules(settings, said), *_keys(settings, said)]:
            yield finding
        yield backlog((await measure(ledger, Known())).stages)
        yield _timers(await lag(ledger))
        for finding in [*await _archive(ledger, settings), *await unfinished_work(ledger)]:
            yield finding
        if settings.aap.enabled:
            yield await _instances(ledger)
        yield await _seats(ledger, settings)
        for finding in await about_inbox(ledger, settings):
            yield finding
    except LedgerUnavailable as error:
        why = str(error).removesuffix(" `signoff doctor` checks it.")
        own = "" if "url" in settings.redis.model_fields_set else " (`signoff up` starts its own.)"
        yield Finding("redis", "broken", f"{url}: {why}{own}")


async def clock(ledger: Ledger, here: datetime) -> AsyncIterator[Finding]:
    """Compare the clock of Redis, by which deadlines and leases are judged, with this one (UTC)."""
    now = await ledger.now()
    async with ledger.store.translated_client() as client:
        rows = await client.xrevrange(f"{ledger.store.prefix}audit", count=1)
    last = audit.order(rows[0][0])[0] if rows else 0
    behind = timedelta(milliseconds=last) - timedelta(milliseconds=to_ms(now))
    if behind > _CLOCK_STEP:
        text = (
            f"its clock was set back by {_shown(behind)}: the last entry of the audit is from "
            "later. Deadlines come as much later. Set the clocks of all Redis servers by NTP"
        )
        yield Finding("redis", "warning", text)
    if abs(now - here) > _CLOCK_STEP:
        than = "behind" if now < here else "ahead of"
        text = (
            f"its clock is {_shown(abs(now - here))} {than} the clock of this machine. Deadlines "
            "are judged by the clock of Redis. Set both by NTP"
        )
        yield Finding("redis", "warning", text)


def _shown(duration: timedelta) -> str:
    return format_duration(timedelta(seconds=round(duration.total_seconds())))


async def _instances(ledger: Ledger) -> Finding:
    """Check whether any agent can use the Agent Approval Protocol."""
    from signoff.channels.aap.instances import everyone  # noqa: PLC0415 -- few set-ups use it

    found = await everyone(ledger)
    if not found:
        text = "no agent can ask by it yet; `signoff aap instance add NAME` adds one"
        return Finding("aap", "warning", text)
    return Finding("aap", "good", f"{len(found)} may ask: {', '.join(one.name for one in found)}")


async def _seats(ledger: Ledger, settings: Settings) -> Finding:
    """Find approver seats of the policies that nobody can fill, now or within a week."""
    directory = await People(ledger, settings.everybody).directory()
    found = vacancies(
        settings.policies,
        settings.default,
        directory,
        now=await ledger.now(),
        ahead=timedelta(days=7),
    )
    if not found:
        return Finding("seats", "good", "everybody whom the policies ask can be asked")
    text = ". ".join(str(one) for one in found[:_MOST_SEATS])
    more = f". And {len(found) - _MOST_SEATS:,} more" if len(found) > _MOST_SEATS else ""
    return Finding("seats", "warning", f"nobody can be asked for {text}{more}")


def _processes(living: dict[str, list[str]]) -> list[Finding]:
    findings = []
    for kind in KINDS:
        names = living.get(kind, [])
        if names:
            findings.append(
                Finding(kind, "good", f"{len(names)} alive: {', '.join(sorted(names))}")
            )
        else:
            text = f"none is alive; start one with `signoff {kind}`"
            findings.append(Finding(kind, "warning", text))
    return findings


def _rules(settings: Settings, found: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Check whether all processes use the people and policies that are read here."""
    for process, state in found.items():
        if problem := state.get("problem"):
            yield Finding("settings", "broken", f"{process}: {problem}")
        elif state.get("rules", settings.rules_digest) != settings.rules_digest:
            text = (
                f"{process} follows other people or policies than these. Give it the same file, "
                "and let it read the file: kill -HUP"
            )
            yield Finding("settings", "warning", text)


def _keys(settings: Settings, found: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Check whether the workers have the keys by which others sign decisions."""
    signers = dict(found)
    # Without a key, the first decision of a command creates one. The doctor does not.
    if settings.receipts.private_key.get_secret_value() or private_file(settings).exists():
        try:
            signers["the command line here"] = open_receipts(settings).key_ids
        except ConfigError as error:
            yield Finding("receipts", "broken", str(error))
    for worker, state in found.items():
        # A process of the last release does not say which keys it has.
        if not worker.startswith("worker ") or "trusts" not in state:
            continue
        trusted = state["trusts"].split()
        for signer, other in signers.items():
            if (kid := other.get("signs")) and kid not in trusted:
                text = (
                    f"{worker} does not have the key {kid}, which {signer} signs decisions with, "
                    "so the calls that it approves wait. Give all processes of one [redis] prefix "
                    "the same keys (`signoff receipt keys` prints those of a machine), and another "
                    "installation another prefix"
                )
                yield Finding("receipts", "broken", text)


def _code(settings: Settings, workers: list[str]) -> list[Finding]:
    """Check whether every running worker can resume suspended code."""
    machines = sorted({host_of(name) for name in workers})
    if len(machines) < _SEVERAL or settings.ces.key.get_secret_value():
        return []
    text = (
        f"workers are alive on {', '.join(machines)}, and [ces] key is not set: code of CX Agent "
        "Studio that stops on one of them cannot continue on another. Set SIGNOFF_CES__KEY to "
        "the same value everywhere. If no agent runs such code, nothing needs to be done"
    )
    return [Finding("code", "warning", text)]


def backlog(stages: Sequence[Stage]) -> Finding:
    """Count the work of the stages, and check that processes take it."""
    text = ", ".join(f"{one.name} {one.items:,}" for one in stages if one.items)
    ages = {one.name: timedelta(seconds=one.age) for one in stages}
    if late := [f"{name} for {_shown(age)}" for name, age in ages.items() if age > _WAITS]:
        text = (
            f"{text}. No process has taken the oldest work of {', '.join(late)}. Start more "
            "processes of this stage; a worker only takes the runs of agents in its folder"
        )
        return Finding("backlog", "warning", text)
    return Finding("backlog", "good", text or "no stage has work waiting")


def _timers(found: Lag) -> Finding:
    text = f"nothing is overdue by more than {found.late.total_seconds():.1f} s"
    return Finding("timers", "warning" if found.problem else "good", found.problem or text)


async def _archive(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Check whether the archive on this machine is the one that the ledger knows."""
    anchor = await read_anchor(ledger)
    if not anchor.sequence:
        return []
    files = ArchiveFiles(settings.archive_folder)
    try:
        await asyncio.to_thread(files.require, anchor.sequence, anchor.sha256)
    except ArchiveBroken as error:
        return [Finding("archive", "warning", str(error))]
    text = f"{files.path(anchor.sequence)} is the last file and is unchanged"
    return [Finding("archive", "good", text)]


async def unfinished_work(ledger: Ledger) -> list[Finding]:
    """Find work that no process continues: a person has to act."""
    findings = []
    if dead := await ledger.store.members(DEAD):
        text = f"{len(dead):,} given up after many attempts; {DEAD}:{dead[0]} … have the causes"
        findings.append(Finding("dead letters", "warning", text))
    if mails := await in_quarantine(ledger):
        text = (
            f"{len(mails):,} could not be read and decide nothing; they are kept for {KEPT.days} "
            "days. `signoff mail quarantine list` shows them"
        )
        findings.append(Finding("quarantined mails", "warning", text))
    if held := await poisoned(ledger):
        text = (
            f"the timers of {len(held):,} fail, such as {held[0].approval}: {held[0].problem}. "
            "Correct that; `signoff approvals show` has the time of the first failure"
        )
        findings.append(Finding("approvals", "broken", text))
    if lost := await ledger.unreachable():
        text = (
            f"nobody can be asked about {len(lost):,}, such as {lost[0].id}: name somebody in "
            "[default] ask; `signoff approvals show` has the reason"
        )
        findings.append(Finding("approvals", "warning", text))
    return findings


async def _broker(settings: Settings, ledger: Ledger) -> Finding:
    """Connect as a worker does."""
    if settings.rings_in_redis:
        # The ledger finds out what is there. Celery would wait a minute for its reply.
        try:
            await ledger.now()
        except LedgerUnavailable:
            text = "it is the Redis of [redis] url, which cannot be used. Correct that first"
            return Finding("broker", "broken", text)
    celery = make_celery(settings.broker_url, prefix=settings.redis.prefix)
    celery.conf.broker_transport_options["socket_timeout"] = _PATIENCE
    try:
        await asyncio.to_thread(require_broker, celery, tries=1)
    except (BrokerUnavailable, SignoffError) as error:
        return Finding("broker", "broken", str(error))
    return Finding("broker", "good", f"{logs.hide_passwords(settings.broker_url)} answers")


def _agents(settings: Settings, loading: AgentLoading | None) -> tuple[list[Finding], Tools]:
    """Load every agent, and return the tools of each.

    If one does not load, every run that is submitted to it fails.
    """
    if not settings.agents_folder.is_dir():
        text = f"there is no folder {settings.agents_folder} here; workers need it"
        return [Finding("agents", "warning", text)], {}
    if not app_names(settings.agents_folder):
        text = f"there is no agent in {settings.agents_folder}"
        return [Finding("agents", "warning", text)], {}
    if loading is None:
        with AgentLoading() as started:
            return _agents(settings, started)
    # The key is a secret of the workers, and loading agents does not need it.
    code = settings.ces.model_dump(mode="json", exclude={"key"}, exclude_unset=True)
    try:
        loaded = loading.load(settings.agents_folder, code)
    except LoadingFailed as error:
        return [Finding("agents", "broken" if error.broken else "warning", str(error))], {}
    findings = []
    for name, found in loaded.items():
        findings += [
            Finding("agents", "broken" if one.broken else "warning", one.text)
            for one in found.problems
        ]
        if not found.problems:
            findings.append(Finding("agents", "good", f"{name} loads"))
    return findings, {name: one.tools for name, one in loaded.items()}


async def _smtp(settings: Settings, ledger: Ledger) -> Finding:
    """Connect, negotiate TLS and log in as for sending, and disconnect."""
    email = settings.email
    smtp = email.smtp.model_copy(update={"timeout": min(email.smtp.timeout, _PATIENCE)})
    where = f"{smtp.host}:{smtp.real_port}"
    try:
        tokens = Tokens.of(smtp.oauth, ledger, timeout=smtp.timeout)
        problem = await SmtpSender(smtp, hostname=email.domain, tokens=tokens).check()
    except ConfigError as error:
        return Finding("smtp", "broken", str(error))
    if problem is None:
        return Finding("smtp", "good", f"{where} answers{_LOGIN if smtp.username else ''}")
    text = f"{str(problem).rstrip('.')}. Approvals wait until mail goes out."
    if "smtp" not in email.model_fields_set:
        text = f"[email.smtp] is not set. {text} (`signoff up` has a mailbox of its own.)"
        return Finding("smtp", "warning", text)
    return Finding("smtp", "broken", text)


async def _dkim(settings: Settings) -> list[Finding]:
    """Compare the key that signs our mail with the key in the DNS."""
    authentication, dkim = settings.email.authentication, settings.email.dkim
    if dkim.key is None:
        return []
    from signoff.channels.email.outbound.dkim import Signer  # noqa: PLC0415 -- cryptography

    try:
        signer = Signer(dkim, dkim.key)
    except ConfigError as error:
        return [Finding("dkim", "broken", str(error))]
    txt = Txt(authentication.nameservers, timeout=authentication.timeout)
    problem = await signer.problem(txt)
    if problem is None:
        text = f"the DNS could not be asked for {signer.name}; it should have: {signer.record}"
        return [Finding("dkim", "warning", text)]
    return [
        Finding(
            "dkim", "broken" if problem else "good", problem or f"{signer.name} has the right key"
        )
    ]


async def _imap(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Get a token if one is needed, log in, and open the folder, as for reading."""
    imap = settings.email.imap
    if imap is None:
        return []
    from signoff.channels.email.imap.check import (  # noqa: PLC0415 -- only with a mailbox
        check as check_mailbox,
    )

    imap = imap.model_copy(update={"timeout": min(imap.timeout, _PATIENCE)})
    try:
        return [Finding("imap", "good", await check_mailbox(imap, ledger))]
    except (ConfigError, MailboxError, LedgerUnavailable) as error:
        text = f"{error} Answers in this mailbox wait until it can be read."
        return [Finding("imap", "broken", text)]


def _proof(settings: Settings) -> list[Finding]:
    """Report what answers by mail must prove, and what this set-up can and cannot verify."""
    email = settings.email
    required = email.required
    levels = list(EmailProof)
    weak = [
        policy.name
        for policy in settings.policies
        if levels.index(policy.email or required) < levels.index(required)
    ]
    text = f"an answer counts with {required.value}: {_LEVELS[required]}"
    if weak:
        text += f". These policies require less: {', '.join(weak)}"
    return [
        Finding("email", "warning" if required is EmailProof.TOKEN else "good", text),
        Finding("email proof", "good", _means(email)),
        Finding("email proof", "good", answer_paths(email)),
    ]


def _means(email: EmailSettings) -> str:
    given = email.authentication
    means = []
    if given.authserv_id:
        means.append(
            f"Authentication-Results of {given.authserv_id} on top of a mail that was fetched, or "
            f"came from {', '.join(given.relays)}; that server must remove such fields of senders"
        )
    if email.verifies_dkim:
        means.append("DKIM signatures verified here; a mail that only passes SPF is not proven")
    if means:
        return (
            "proven by " + ", or by ".join(means) + ". Mail inside one provider is often not signed"
        )
    return (
        "nothing proves a From here: anybody who knows a card's address can write one. Set "
        "[email.authentication] dkim or authserv_id"
    )


def answer_paths(email: EmailSettings) -> str:
    """Describe how answers by mail come in."""
    inbound, paths = email.inbound, []
    if inbound.listen:
        secured = ", with STARTTLS" if inbound.certificate else ""
        by = f"{inbound.protocol.upper()}{secured}"
        paths.append(f"come in at {inbound.host}:{inbound.port} by {by}")
    if email.imap is not None:
        paths.append(f"are read from the mailbox of {email.imap.username} at {email.imap.host}")
    text = f"answers to {email.mailbox} {' and '.join(paths)}" if paths else "no answer comes in"
    if not (email.authentication.authserv_id and inbound.listen):
        return text
    return f"{text}. Mail of other servers is proven only by its signature"


async def _dns(settings: Settings) -> list[Finding]:
    """Query the DNS once for each domain of the people: verifying signatures needs it."""
    email = settings.email
    if not email.verifies_dkim:
        return []
    given = email.authentication
    txt = Txt(given.nameservers, timeout=given.timeout)
    domains = {person.email.rpartition("@")[2].lower() for person in settings.everybody}
    asked = sorted(domains)[:_MOST_DOMAINS] or [email.domain]
    answers = await asyncio.gather(*(txt.records(f"_dmarc.{domain}") for domain in asked))
    if away := [domain for domain, one in zip(asked, answers, strict=True) if one is None]:
        text = (
            f"the DNS does not answer about {', '.join(away)}: signatures cannot be verified, so "
            "answers wait for some minutes and are then refused. Check [email.authentication] "
            "nameservers"
        )
        return [Finding("dns", "warning", text)]
    without = [domain for domain, one in zip(asked, answers, strict=True) if not one]
    text = f"it answers about {', '.join(asked)}"
    if without:
        text += f"; without a DMARC record, so that only DKIM proves senders: {', '.join(without)}"
    return [Finding("dns", "good", text)]


def own_channels(settings: Settings) -> list[Finding]:
    """Return findings about custom channels: whether each can be created."""
    findings = []
    for name, table in settings.channels.items():
        try:
            (made,) = added_channels({name: table})
        except ConfigError as error:
            findings.append(Finding(f"channel {name}", "broken", str(error)))
        else:
            more = " and takes answers" if isinstance(made, Answering) else ""
            text = f"{table.factory} sends cards{more}"
            findings.append(Finding(f"channel {name}", "good", text))
    return findings


async def _slack(settings: Settings) -> list[Finding]:
    if not settings.slack.enabled:
        return []
    from signoff.channels.slack.check import check as check_slack  # noqa: PLC0415 -- aiohttp

    rules: list[Policy | Fallback] = [*settings.policies, settings.default]
    named = {person for one in rules if "slack" in one.channels for person in one.ask}
    found = await check_slack(
        settings.slack,
        [one.slack_channel for one in rules if one.slack_channel],
        [one for one in settings.everybody if one.slack or one.id in named],
    )
    return [
        Finding(
            f"slack {one.about}",
            "broken" if one.problem else "good",
            one.problem or one.text or "it works",
        )
        for one in found
    ]
