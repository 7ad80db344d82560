"""The checks of `signoff doctor`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from signoff.broker.directory.absences import People
from signoff.broker.doorbells.celery import make_celery
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.custom import added_channels
from signoff.channels.pipeline.port import Answering
from signoff.cli import log as logs
from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import Settings
from signoff.cli.doctor import mail
from signoff.cli.doctor.brokers import BrokerUnavailable, require_broker
from signoff.cli.doctor.finding import Finding
from signoff.cli.doctor.ledger import about_ledger
from signoff.cli.doctor.loading import AgentLoading, LoadingFailed
from signoff.cli.doctor.rules import Tools, about_rules
from signoff.cli.doctor.sessions import about_sessions
from signoff.core.base.errors import ConfigError, LedgerUnavailable, SignoffError
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Fallback, Policy
from signoff.worker.agent_folders import app_names


def of_errors(errors: ConfigErrors) -> list[Finding]:
    """Return the findings about invalid settings; without settings, nothing else can be checked."""
    return [Finding("settings", "broken", str(fault)) for fault in errors.faults]


async def diagnose(settings: Settings, loading: AgentLoading | None = None) -> list[Finding]:
    """Run all checks and return the findings; nothing is changed and no mail is sent.

    `loading` is the process that loads the agents; None starts one.
    """
    ledger = Ledger(Store.open(settings.redis_url, prefix=settings.redis.prefix, size=4))
    try:
        # Concurrently: each check mostly waits for another server or process.
        in_mail = asyncio.gather(
            mail.dkim(settings), mail.mailbox(settings, ledger), mail.dns(settings)
        )
        servers = asyncio.gather(
            mail.smtp(settings, ledger), _broker(settings, ledger), about_sessions(settings)
        )
        (
            in_redis,
            slack,
            (dkim, imap, dns),
            (smtp, broker, sessions),
            seen,
            found,
        ) = await asyncio.gather(
            about_ledger(ledger, settings),
            _slack(settings),
            in_mail,
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
    return [*findings, *slack, *own_channels(settings), *mail.proof(settings), *dns]


async def _present(ledger: Ledger, settings: Settings) -> tuple[Directory, datetime]:
    """Return the people with their absences, and the time; those of the settings without Redis."""
    try:
        return await People(ledger, settings.everybody).directory(), await ledger.now()
    except LedgerUnavailable:
        return settings.everybody, datetime.now(UTC)


def _settings(settings: Settings) -> list[Finding]:
    faults = check(settings)
    where = settings.file or "no file: environment and defaults"
    if not faults:
        return [Finding("settings", "good", str(where))]
    return [
        Finding("settings", "broken" if one.severity == "error" else "warning", str(one))
        for one in faults
    ]


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
    celery.conf.broker_transport_options["socket_timeout"] = mail.PATIENCE
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
