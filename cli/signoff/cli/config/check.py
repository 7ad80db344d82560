"""Checks the settings together, for errors that no single value shows."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import get_args
from urllib.parse import urlsplit

from pydantic import BaseModel

from signoff.broker.server.hosts import NO_URL, split_url
from signoff.channels.aap.settings import REQUESTS_KEPT
from signoff.channels.email.imap.settings import OAuthSettings
from signoff.cli.composition.credentials import gets
from signoff.cli.config.channels import check as added_channels_in
from signoff.cli.config.deciders import check as deciders_in
from signoff.cli.config.faults import (
    NO_SLACK,
    ConfigErrors,
    Fault,
    Found,
    Loc,
    defect,
    export,
    key_text,
    place_text,
    suggest,
    unknown_person,
    warning,
)
from signoff.cli.config.grants import check as grants_in
from signoff.cli.config.levels import check as levels_in
from signoff.cli.config.levels import never_true
from signoff.cli.config.people import check as people_in
from signoff.cli.config.people import reference
from signoff.cli.config.secret_files import NESTED, PREFIX
from signoff.cli.config.settings import Settings, source_of
from signoff.core.approvals.input import long_running
from signoff.core.approvals.input import rules as input_rules
from signoff.core.base.errors import ConditionError, ConfigError, NotCanonical
from signoff.core.base.networks import is_loopback
from signoff.core.directory.identity import mailbox
from signoff.core.directory.people import identity_key
from signoff.core.policies import conditions
from signoff.core.policies.comparisons import Alternative, alternatives, contrary, covers
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Effect, EmailProof, Fallback, Policy, Routing

_REDIS = ("redis", "rediss", "unix", "sentinel", "redis+cluster", "rediss+cluster")
_LEAST = timedelta(minutes=1)
"""A shorter time for an answer is probably a mistake."""
_ORDER = "Put it before that one, or remove it: the first that matches wins."
_MAKE = "$(openssl rand -base64 32)"
_BROKER = (*(one for one in _REDIS if one != "unix"), "amqp", "amqps", "pyamqp")


def check(settings: Settings, kind: str = "") -> list[Fault]:
    """Return all faults: errors before warnings, each in the order of the file.

    Settings that a kind of process does not get count as set; "" gets everything.
    """
    found: list[Found] = []
    for rule, needed in _RULES.items():
        if all(gets(kind, one) for one in needed):
            found += rule(settings)
    faults = [
        fault._replace(
            key=key_text(loc),
            source=source_of(settings, loc),
            place=place_text(loc, settings),
        )
        for loc, fault in found
    ]
    return sorted(faults, key=lambda fault: fault.severity == "warning")


def require(settings: Settings, kind: str = "") -> list[Fault]:
    """Refuse settings with errors, as `check` finds them; return the warnings.

    Raises:
        ConfigErrors: There is at least one error.
    """
    faults = check(settings, kind)
    if errors := [fault for fault in faults if fault.severity == "error"]:
        raise ConfigErrors(errors)
    return faults


def _people(settings: Settings) -> Iterator[Found]:
    ids: dict[str, int] = {}
    owners: dict[str, tuple[int, str]] = {}
    for index, person in enumerate(settings.people):
        first = ids.setdefault(person.id, index)
        if first != index:
            message = f"{person.id!r} is already the id of another person"
            yield ("people", index, "id"), defect(message, "Give each person an id of their own.")
        for key, address in [("email", person.email), *(("aliases", a) for a in person.aliases)]:
            owner, owner_id = owners.setdefault(identity_key(address), (index, person.id))
            if owner != index:
                message = f"{address} is already an address of {owner_id!r}"
                remedy = "An address identifies who answers, so it can belong to one person only."
                yield ("people", index, key), defect(message, remedy)
    yield from _mailboxes(settings)
    normal = {identity_key(one): one for one in reversed(ids)}
    for address, (index, person_id) in owners.items():
        named = normal.get(address, person_id)
        if named != person_id:
            message = f"{address} is also the id of {named!r}"
            yield ("people", index, "email"), defect(message, "Rename that id.")


def _mailboxes(settings: Settings) -> Iterator[Found]:
    """Find addresses of two people that deliver to one mailbox."""
    owners: dict[str, tuple[str, str]] = {}
    for index, person in enumerate(settings.people):
        for key, address in [("email", person.email), *(("aliases", a) for a in person.aliases)]:
            mine = (person.id, identity_key(address))
            owner, other = owners.setdefault(mailbox(address), mine)
            # The same address twice is an error, which is reported above.
            if owner != person.id and other != mine[1]:
                message = f"{address} and {other} of {owner!r} lead to one mailbox"
                remedy = "They count as one person: give each a mailbox, or make it one entry."
                yield ("people", index, key), warning(message, remedy)


def _policies(settings: Settings) -> Iterator[Found]:
    names: dict[str, int] = {}
    before, all_of = _Earlier(), ""
    for index, policy in enumerate(settings.policies):
        first = names.setdefault(policy.name, index)
        if first != index:
            message = f"{policy.name!r} is already the name of another policy"
            remedy = "Choose a unique name: the audit log and the cards name policies."
            yield ("policies", index, "name"), defect(message, remedy)
        mine = alternatives(policy.when, policy.time_zone)
        if all_of:
            message = f"it is never reached: {all_of!r} matches all"
            yield ("policies", index), defect(message, _ORDER)
        elif (name := before.covering(mine)) and not contrary(policy.when):
            message = f"it is never reached: {name!r} matches each of its calls"
            yield ("policies", index), warning(message, _ORDER)
        yield from _condition(("policies", index, "when"), policy.when)
        yield from _clock(("policies", index), policy)
        yield from _routing(settings, ("policies", index), policy)
        before.add(mine, policy.name)
        has_condition = {one.strip() for one in policy.when.split("&&")} - {"", "true"}
        all_of = all_of or ("" if has_condition else policy.name)


class _Earlier:
    """The conditions of earlier policies, by the tools to which they are limited."""

    def __init__(self) -> None:
        self._by_tool: dict[str, list[tuple[tuple[Alternative, ...], str]]] = {}

    def add(self, ways: tuple[Alternative, ...], name: str) -> None:
        """Add a policy; the tool "" stands for any."""
        for tool in {tool for one in ways for tool in one.texts("tool") or ("",)}:
            self._by_tool.setdefault(tool, []).append((ways, name))

    def covering(self, ways: tuple[Alternative, ...]) -> str:
        """Return the name of a policy that covers a condition, "" if there is none."""
        tools = ("", *ways[0].texts("tool")[:1])
        among = (one for tool in tools for one in self._by_tool.get(tool, ()))
        return next((name for wider, name in among if covers(wider, ways)), "")


def _condition(loc: Loc, source: str) -> Iterator[Found]:
    if not source:
        return
    try:
        conditions.check(source, conditions.POLICY_NAMES)
    except ConditionError as error:
        remedy = "For instance: tool == 'reimburse' && args.amount > 1000."
        yield loc, defect(str(error).rstrip("."), remedy)
    yield from never_true(loc, source)
    for message in conditions.pitfalls(source):
        remedy = "Write tool.startsWith('delete_') for a pattern, and numbers without quotes."
        yield loc, warning(message, remedy)


def _clock(loc: Loc, policy: Policy) -> Iterator[Found]:
    sources = (policy.when, policy.ceiling, policy.second_step)
    if any(map(conditions.reads_clock, sources)) and "time_zone" not in policy.model_fields_set:
        message = "it reads `now`, which is counted in UTC"
        yield loc, warning(message, 'Add time_zone = "Europe/Berlin", or another one.')


def _asked(settings: Settings, loc: Loc, ask: tuple[str, ...]) -> Iterator[Found]:
    for one in ask:
        if fault := reference(settings, one):
            yield loc, fault
    if len(set(ask)) < len(ask):
        yield loc, warning("somebody is named twice", "Once is enough.")


def _routing(settings: Settings, loc: Loc, rule: Policy | Fallback) -> Iterator[Found]:
    """Find the faults of a policy or the default."""
    yield from _condition((*loc, "second_step"), rule.second_step)
    levels = [((*loc, "levels", index), level) for index, level in enumerate(rule.levels)]
    for here, one in ((loc, rule), *levels):
        yield from _asked(settings, (*here, "ask"), one.ask)
        for index, group in enumerate(one.all_of):
            yield from _asked(settings, (*here, "all_of", index, "ask"), group.ask)
        yield from _until(settings, here, one)
        if one.within.by_the_clock < _LEAST:
            remedy = 'A number without a unit means seconds: write "4h" for four hours.'
            yield (*here, "within"), warning(f"people have only {one.within} to answer", remedy)
    yield from _informed(settings, loc, rule)
    yield from _provable(settings, (*loc, "email"), rule.email)


def _informed(settings: Settings, loc: Loc, rules: Routing) -> Iterator[Found]:
    yield from _asked(settings, (*loc, "inform"), rules.inform)
    for index, level in enumerate(rules.levels):
        yield from _asked(settings, (*loc, "levels", index, "inform"), level.inform)
    if rules.inform and not rules.references and rules.effect is not Effect.ASK:
        message = "nobody is informed of calls that are decided at once; they are in the audit log"
        yield (*loc, "inform"), warning(message, "Remove it, or name somebody in ask.")


def _until(settings: Settings, loc: Loc, asking: Asking) -> Iterator[Found]:
    if not asking.until:
        return
    try:
        conditions.check(asking.until, conditions.LIMIT_NAMES)
    except ConditionError as error:
        remedy = "For instance: limit.expenses >= args.amount."
        yield (*loc, "until"), defect(str(error).rstrip("."), remedy)
    limits = [one.limits for one in settings.people] + [one.limits for one in settings.queues]
    known = {name for one in limits for name in one}
    for name in conditions.limits_in(asking.until):
        if name not in known:
            remedy = suggest(name, known) or f"Add limits = {{ {name} = 5000 }} to [[people]]."
            yield (*loc, "until"), defect(f"nobody has a limit called {name!r}", remedy)


def _default(settings: Settings) -> Iterator[Found]:
    yield from _routing(settings, ("default",), settings.default)
    if settings.default.references:
        return
    message = "nobody is asked if no policy matches, or if nobody of a policy can be reached"
    remedy = 'Add [default] ask = ["…"]: otherwise such a call waits for its deadline.'
    yield ("default", "ask"), warning(message, remedy)


def _long_running(settings: Settings) -> Iterator[Found]:
    rules = settings.long_running
    for index, rule in enumerate(rules):
        try:
            long_running.check(rule)
        except (ConditionError, NotCanonical) as error:
            remedy = "For instance: {'status': status, 'ticket': result.ticket}."
            yield ("long_running", index), defect(str(error).rstrip("."), remedy)
        covering = [
            other
            for other in rules[:index]
            if other.tool == rule.tool and other.app in {"", rule.app} and not other.when
        ]
        if covering:
            message = f"it is never reached: an earlier table takes every call of {rule.tool!r}"
            yield ("long_running", index), defect(message, _ORDER)


def _inputs(settings: Settings) -> Iterator[Found]:
    for index, rule in enumerate(settings.inputs):
        try:
            input_rules.check(rule)
        except (ConditionError, NotCanonical) as error:
            remedy = "For instance: when = \"message.startsWith('Reply with')\"."
            yield ("inputs", index), defect(str(error).rstrip("."), remedy)
        if any(one.app in {"", rule.app} and not one.when for one in settings.inputs[:index]):
            message = "it is never reached: an earlier table takes all"
            yield ("inputs", index), defect(message, _ORDER)


def _email(settings: Settings) -> Iterator[Found]:
    email = settings.email
    smtp = email.smtp
    if smtp.security == "none" and not is_loopback(smtp.host):
        message = f"mail goes to {smtp.host} unencrypted, reply tokens included"
        remedy = "Set 'starttls' or 'tls' unless the network between is yours alone."
        yield ("email", "smtp", "security"), warning(message, remedy)
    sender = email.sender_address.rpartition("@")[2].lower()
    if sender != email.domain.lower():
        message = f"answers go to {email.domain}, but mails come from {sender}"
        remedy = "Mail programs distrust a Reply-To in another domain: use one domain for both."
        yield ("email", "mailbox"), warning(message, remedy)
    for index, person in enumerate(settings.people):
        if identity_key(person.email) in {
            identity_key(email.mailbox),
            identity_key(email.sender_address),
        }:
            message = f"{person.email} is Signoff's own address"
            yield ("people", index, "email"), defect(message, "Give the person's own address.")


def _sending(settings: Settings) -> Iterator[Found]:
    smtp, loc = settings.email.smtp, ("email", "smtp")
    if smtp.oauth is not None:
        yield from _tokens(loc, smtp.oauth)
    elif smtp.username and not smtp.password.get_secret_value():
        message = f"there is no password for {smtp.username}"
        remedy = f"{export((*loc, 'password'))}, or remove username."
        yield (*loc, "password"), defect(message, remedy)


def _reading(settings: Settings) -> Iterator[Found]:
    imap, loc = settings.email.imap, ("email", "imap")
    if imap is None:
        return
    if imap.oauth is not None:
        yield from _tokens(loc, imap.oauth)
    elif not imap.password.get_secret_value():
        message = f"there is no password for {imap.username}"
        remedy = f"{export((*loc, 'password'))}, or add the table [email.imap.oauth]."
        yield (*loc, "password"), defect(message, remedy)


def _tokens(loc: Loc, oauth: OAuthSettings) -> Iterator[Found]:
    if not oauth.grantable:
        message = "tokens cannot be requested without refresh_token or client_secret"
        remedy = (
            f"Set refresh_token, or only client_secret: {export((*loc, 'oauth', 'client_secret'))}"
        )
        yield (*loc, "oauth"), defect(message, remedy)


def _inbound(settings: Settings) -> Iterator[Found]:
    email = settings.email
    imap = email.imap
    if imap is not None and imap.security == "none" and not is_loopback(imap.host):
        message = f"mail is read from {imap.host} unencrypted, password and reply tokens included"
        remedy = "Set 'starttls' or 'tls' unless the network between is yours alone."
        yield ("email", "imap", "security"), warning(message, remedy)
    if not (email.inbound.listen or imap or email.webhook.secrets or email.webhook.mailgun_secrets):
        message = "no answer by email can come in: this is off, and nothing else is set"
        remedy = "Set it to true, or add the table [email.imap] or [email.webhook]."
        yield ("email", "inbound", "listen"), warning(message, remedy)
    inbound = email.inbound
    if inbound.listen and not inbound.certificate and not is_loopback(inbound.host):
        message = f"mail is taken at {inbound.host} unencrypted, reply tokens included"
        remedy = "Set certificate, so that STARTTLS is offered."
        yield ("email", "inbound", "certificate"), warning(message, remedy)


def _provable(settings: Settings, loc: Loc, required: EmailProof | None) -> Iterator[Found]:
    """Compare the proof that answers by mail need with the proof that this set-up can verify."""
    if required is EmailProof.TOKEN_FROM_DMARC is not settings.email.strongest:
        message = f"nothing here can prove {required.value}: no answer by mail would count"
        remedy = "Set [email.authentication] dkim = true, or authserv_id."
        yield loc, defect(message, remedy)


def _authentication(settings: Settings) -> Iterator[Found]:
    given, loc = settings.email.authentication, ("email", "authentication")
    yield from _provable(settings, (*loc, "require"), given.require)
    if given.require is EmailProof.TOKEN:
        message = "anybody who has a card's address can answer it, under any name"
        remedy = "Set it only in single policies (`email`), and keep the default stricter."
        yield (*loc, "require"), warning(message, remedy)
    wide = [one for one in given.relays if ipaddress.ip_network(one).prefixlen == 0]
    if given.authserv_id and wide:
        message = f"{wide[0]} means everybody, so anybody could add results to a mail"
        remedy = "Name the networks of your own mail servers."
        yield (*loc, "relays"), defect(message, remedy)


def _gateway(settings: Settings) -> Iterator[Found]:
    gateway, known = settings.gateway, [one.id for one in settings.people]
    if gateway.local_person and (fault := unknown_person(gateway.local_person, known)):
        yield ("gateway", "local_person"), fault
    if gateway.local_person and not settings.local_programs:
        message = "it has no effect while programs on this machine need a token"
        remedy = "Give a token a `person`, or remove this."
        yield ("gateway", "local_person"), warning(message, remedy)
    if gateway.adk and settings.local_programs and settings.is_public:
        message = "programs on this machine need no token, and requests come from other machines"
        remedy = (
            "Remove it: behind a proxy on this machine, every request can look like one from here. "
            "`signoff tokens create` creates tokens."
        )
        yield ("gateway", "local"), warning(message, remedy)
    if gateway.adk_web and not gateway.adk:
        message = "the page needs the API"
        yield ("gateway", "adk_web"), defect(message, "Set adk = true, or remove this.")
    hashes: dict[str, int] = {}
    for index, token in enumerate(gateway.tokens):
        loc = ("gateway", "tokens", index)
        first = hashes.setdefault(token.sha256, index)
        if first != index:
            message = f"it is the token of gateway.tokens[{first}]"
            yield (*loc, "sha256"), defect(message, "Create another: openssl rand -base64 32.")
        if token.person and (fault := unknown_person(token.person, known)):
            yield (*loc, "person"), fault
        if token.person and token.users:
            message = "anybody who has it can submit a request and approve it"
            remedy = "Use one token to submit (`users`) and another to answer (`person`)."
            yield loc, warning(message, remedy)
        if not token.person and not token.users:
            message = "it allows nothing"
            yield loc, warning(message, "Set `users`, or `person`.")


def _inbox(settings: Settings) -> Iterator[Found]:
    for loc, rule in settings.rules:
        if rule.second_step not in {"", "false"} and not settings.inbox.url:
            message = "there is no page for the second step"
            remedy = (
                'Set [inbox] url = "https://approvals.example.com", and give each gateway its key: '
                f"{export(('inbox', 'secret_key'), _MAKE)}. Or remove second_step."
            )
            yield (*loc, "second_step"), defect(message, remedy)
    here = is_loopback(urlsplit(settings.inbox.url).hostname or "localhost")
    if "link" in settings.inbox.sign_in and not here and is_loopback(settings.email.domain):
        message = "links by mail do not leave this machine, because the mailbox is on it"
        remedy = 'Set sender, mailbox and [email.smtp], or remove "link".'
        yield ("inbox", "sign_in"), warning(message, remedy)


def _page(settings: Settings) -> Iterator[Found]:
    if settings.inbox.url and not settings.inbox.secret_key.get_secret_value():
        message = "the page has no key to encrypt its second factors with"
        remedy = (
            f"Make one, keep it, and give it to each gateway: "
            f"{export(('inbox', 'secret_key'), _MAKE)}"
        )
        yield ("inbox", "secret_key"), defect(message, remedy)


def _push(settings: Settings) -> Iterator[Found]:
    if settings.inbox.push is not None and settings.inbox.notifies is None:
        message = "there is no key to sign notifications with"
        remedy = (
            "Make one, keep it, and give it to each channels process: "
            f"{export(('inbox', 'push', 'private_key'), _MAKE)}"
        )
        yield ("inbox", "push", "private_key"), defect(message, remedy)


def _clicks(settings: Settings) -> Iterator[Found]:
    if settings.slack.enabled and not settings.slack.takes_clicks:
        message = "cards could be sent, but clicks could not be received"
        remedy = (
            f"For Socket Mode: {export(('slack', 'app_token'), 'xapp-…')}. For HTTP: "
            f"{export(('slack', 'signing_secret'))}."
        )
        yield ("slack",), defect(message, remedy)


def _slack(settings: Settings) -> Iterator[Found]:
    owners: dict[str, str] = {}
    for index, person in enumerate(settings.people):
        owner = owners.setdefault(person.slack, person.id) if person.slack else person.id
        if owner != person.id:
            message = f"{person.slack} is already the Slack id of {owner!r}"
            remedy = "An id identifies the person who clicks, so it can belong to one person only."
            yield ("people", index, "slack"), defect(message, remedy)
    if settings.slack.enabled:
        return
    remedy = f"{NO_SLACK}, or remove it: then people are asked by mail."
    for loc, rule in settings.rules:
        if "slack" in rule.channels:
            yield (*loc, "channels"), defect("Slack is not set up", remedy)
        if rule.slack_channel:
            yield (*loc, "slack_channel"), defect("Slack is not set up", remedy)


def _places(settings: Settings) -> Iterator[Found]:
    yield from _url(("redis", "url"), settings.redis.url, _REDIS)
    if settings.broker.url:
        yield from _url(("broker", "url"), settings.broker.url, _BROKER)
    if "+cluster://" in f"{settings.redis.url} {settings.broker.url}":
        from signoff.broker.server.cluster import slot_of  # noqa: PLC0415 -- redis takes a while to import

        try:
            slot_of(settings.redis.prefix)
        except ConfigError as error:
            yield ("redis", "prefix"), _of_redis(error)
    folder = settings.agents_folder
    if not folder.is_dir():
        message = f"there is no folder {folder}"
        remedy = "Workers need it: name the folder that you would give to `adk web`."
        yield ("agents", "folder"), warning(message, remedy)


def _code(settings: Settings) -> Iterator[Found]:
    """Find a missing key: a worker can resume suspended code only with the key that signed it."""
    try:
        redis = urlsplit(settings.redis.url)
        shared = bool(redis.hostname) and not is_loopback(redis.hostname or "")
    except ValueError:
        shared = False  # reported by `_places`
    if shared and "ces" in settings.model_fields_set and not settings.ces.key.get_secret_value():
        message = (
            "it is not set: each machine makes a key of its own, and code that is suspended on one "
            "machine cannot resume on another"
        )
        remedy = (
            f"Create one, store it, and give it to all machines with workers: "
            f"{export(('ces', 'key'), '$(openssl rand -hex 32)')}. With only one machine, "
            "nothing needs to be done."
        )
        yield ("ces", "key"), warning(message, remedy)


def _url(loc: Loc, url: str, schemes: tuple[str, ...]) -> Iterator[Found]:
    """Check the scheme of a URL; messages never quote it, because it may contain a password."""
    remedy = f"Write {schemes[0]}://host:port/0, or another of {', '.join(schemes)}."
    if url.startswith(("sentinel://", "redis+cluster://", "rediss+cluster://")):
        from signoff.broker.server.address import Sentinels  # noqa: PLC0415 -- redis takes a while to import
        from signoff.broker.server.cluster import Cluster  # noqa: PLC0415 -- as above

        try:
            (Sentinels if url.startswith("sentinel://") else Cluster).read(url)
        except ConfigError as error:
            yield loc, _of_redis(error)
        return
    parts = split_url(url)
    if parts is None:
        yield loc, defect(NO_URL, remedy)
        return
    if parts.scheme not in schemes:
        message = f"{parts.scheme} is not a scheme for it" if parts.scheme else "it has no scheme"
        yield loc, defect(message, remedy)
    elif parts.scheme == "unix":
        if not parts.path:
            yield loc, defect("it names no socket", "Write unix:///path/to/redis.sock.")
    elif not parts.hostname:
        yield loc, defect("it names no host", remedy)
    elif parts.scheme.startswith("redis") and not _is_database(parts.path):
        yield loc, defect("what follows the port should be a database number", remedy)
    elif parts.scheme in _REDIS and parts.query:
        from signoff.broker.server.address import open_pool  # noqa: PLC0415 -- as above

        try:
            open_pool(url, prefix="")  # connects nothing
        except ConfigError as error:
            yield loc, _of_redis(error)._replace(remedy="")


def _of_redis(error: ConfigError) -> Fault:
    # The finding already names the setting.
    text = str(error).removeprefix(f"{error.key}: ")
    return defect(text, "See docs/how-to/fail-over.md.")


def _metrics(settings: Settings) -> Iterator[Found]:
    found = settings.metrics
    reachable = settings.is_public or not is_loopback(found.host)
    if found.enabled and reachable and not found.token.get_secret_value():
        message = "other machines can reach the metrics without a token"
        remedy = (
            f"{export(('metrics', 'token'), _MAKE)}, and give the same to Prometheus as its "
            "bearer token."
        )
        yield ("metrics", "token"), defect(message, remedy)


def _aap(settings: Settings) -> Iterator[Found]:
    after = settings.retention.after
    if settings.aap.enabled and after is not None and after < REQUESTS_KEPT:
        message = "agents that ask by [aap] may ask for a decision again for eight days"
        yield ("retention", "after"), defect(message, "Set it to 8d or longer.")


def _variables(_: Settings) -> Iterator[Found]:
    """Find variables that have one underscore where a setting needs two."""
    present = {name.upper(): value for name, value in os.environ.items()}
    for loc in _paths(Settings):
        parts = [part.upper() for part in loc]
        name = PREFIX + "_".join(parts)
        # Kubernetes sets SIGNOFF_GATEWAY_PORT=tcp://… for a service that is named signoff-gateway.
        if len(parts) > 1 and not present.get(name, "tcp://").startswith("tcp://"):
            remedy = f"Name it {PREFIX}{NESTED.join(parts)}, with two underscores between names."
            yield loc, warning(f"the variable {name} is not read", remedy)


def _paths(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Return the paths of the settings in a table and in the tables inside it."""
    for name, field in model.model_fields.items():
        yield (name,)
        for one in (field.annotation, *get_args(field.annotation)):  # a table, or one or None
            if isinstance(one, type) and issubclass(one, BaseModel):
                yield from ((name, *path) for path in _paths(one))


_RULES: Mapping[Callable[[Settings], Iterable[Found]], tuple[str, ...]] = {
    _variables: (),
    _people: (),
    people_in: ("slack.bot_token",),
    _policies: ("slack.bot_token", "email"),
    _default: ("slack.bot_token", "email"),
    levels_in: ("slack.bot_token", "channels"),
    deciders_in: (),
    grants_in: (),
    _long_running: (),
    _inputs: (),
    _email: ("email.smtp",),
    _sending: ("email.smtp",),
    _reading: ("email.imap",),
    _inbound: ("email.imap", "email.webhook"),
    _slack: ("slack.bot_token",),
    _clicks: ("slack.app_token", "slack.signing_secret"),
    added_channels_in: ("channels",),
    _authentication: ("email",),
    _gateway: ("gateway",),
    _inbox: ("inbox.url", "email"),
    _page: ("inbox.secret_key",),
    _push: ("inbox.push.private_key",),
    _places: (),
    _code: ("ces",),
    _metrics: ("metrics",),
    _aap: ("aap",),
}
"""Each check, with the tables and keys that a process needs to apply it."""


def _is_database(path: str) -> bool:
    return path in {"", "/"} or path.removeprefix("/").isdigit()
