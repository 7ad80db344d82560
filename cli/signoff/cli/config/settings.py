"""The settings: environment over signoff.toml over defaults."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_origin
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from signoff.channels.aap.settings import AapSettings
from signoff.channels.custom import AddedChannels
from signoff.channels.email.settings import EmailSettings
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.webhooks.settings import Webhook
from signoff.cli.composition.credentials import NESTED, PREFIX, own_content
from signoff.cli.config.faults import (
    ConfigErrors,
    Fault,
    Loc,
    faults_of,
    parse_toml,
    place_text,
    read_text,
    suggest,
)
from signoff.cli.config.secret_files import FILE, with_files
from signoff.cli.config.sections import (
    AgentSettings,
    BrokerSettings,
    DeliverySettings,
    GatewaySettings,
    LogSettings,
    MetricsSettings,
    NotificationSettings,
    ReceiptSettings,
    RedisSettings,
    RetentionSettings,
    SessionSettings,
    TracingSettings,
)
from signoff.cli.config.sources import (
    ComputedPolicies,
    DirectorySettings,
    computed,
    sourced,
    text_of,
)
from signoff.cli.config.started import provided
from signoff.cli.config.toml_lines import line_of
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.base.hiding import Hidden
from signoff.core.base.model import Value
from signoff.core.base.networks import is_loopback
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.selection import all_hidden
from signoff.core.routing.targets import EMAIL, SLACK
from signoff.worker.ces.rules import Rules

FILE_NAME = "signoff.toml"
"""The settings file in the working directory, which is read if no other file is named."""

STATE_FOLDER = ".signoff"
"""The folder of the state, next to the settings file or in the working directory."""

CONFIG_VARIABLE = "SIGNOFF_CONFIG"
"""The environment variable that names another file."""

RULES = frozenset({"people", "directory", "queues", "schedules", "policies", "policy", "default"})
"""The sections that a process reloads while it runs; it reads all others when it starts."""

Stamps = tuple[tuple[int, int, int] | None, ...]
"""For each file its time of change, size and inode; None if it cannot be read."""

_SQLITE = "sqlite:///"


class Settings(Value):
    """All settings. `load_settings` reads them."""

    model_config = ConfigDict(title="Settings of Signoff (signoff.toml)")

    # Defaults are not validated: that would build the validator of each section.
    redis: RedisSettings = RedisSettings.model_construct()
    retention: RetentionSettings = RetentionSettings.model_construct()
    broker: BrokerSettings = BrokerSettings.model_construct()
    sessions: SessionSettings = SessionSettings.model_construct()
    agents: AgentSettings = AgentSettings.model_construct()
    email: EmailSettings = EmailSettings.model_construct()
    slack: SlackSettings = SlackSettings.model_construct()
    channels: AddedChannels = Field(default_factory=dict)
    gateway: GatewaySettings = GatewaySettings.model_construct()
    aap: AapSettings = AapSettings.model_construct()
    inbox: InboxSettings = InboxSettings.model_construct()
    delivery: DeliverySettings = DeliverySettings.model_construct()
    notifications: NotificationSettings = NotificationSettings.model_construct()
    receipts: ReceiptSettings = ReceiptSettings.model_construct()
    webhooks: tuple[Webhook, ...] = ()
    people: tuple[Person, ...] = ()
    directory: DirectorySettings = DirectorySettings.model_construct()
    queues: tuple[Queue, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    policies: tuple[Policy, ...] = ()
    policy: ComputedPolicies = ComputedPolicies.model_construct()
    default: Fallback = Fallback.model_construct()
    long_running: tuple[LongRunning, ...] = ()
    inputs: tuple[InputRule, ...] = ()
    log: LogSettings = LogSettings.model_construct()
    metrics: MetricsSettings = MetricsSettings.model_construct()
    tracing: TracingSettings = TracingSettings.model_construct()
    ces: Rules = Rules.model_construct()

    _file: Path | None = PrivateAttr(default=None)
    _places: tuple[str, ...] = PrivateAttr(default=())
    _stamps: Stamps | None = PrivateAttr(default=None)

    @property
    def stamps(self) -> Stamps:
        """Values by which to see that a file has changed since it was read."""
        return stamps(self) if self._stamps is None else self._stamps

    @property
    def file(self) -> Path | None:
        """The file that the settings were read from; None if there is none."""
        return self._file

    @property
    def home(self) -> Path:
        """The folder of the settings file, or the working directory: relative paths start here."""
        return self._file.parent if self._file is not None else Path.cwd()

    @property
    def state_folder(self) -> Path:
        """The folder of Signoff's state on this machine."""
        return self.home / STATE_FOLDER

    @property
    def agents_folder(self) -> Path:
        """The agents' folder as an absolute path."""
        return (self.home / self.agents.folder).resolve()

    def may_have_agent(self, name: str) -> bool:
        """Return whether an agent exists; if the agents are on other machines, any name may."""
        folder = self.agents_folder
        return name in self.agents.remote or not folder.is_dir() or (folder / name).is_dir()

    @property
    def redis_url(self) -> str:
        """The URL of the ledger's Redis."""
        return self.redis.url

    @property
    def redis_folder(self) -> Path:
        """The folder of the Redis that `signoff up` starts."""
        return self.state_folder / "redis"

    @property
    def archive_folder(self) -> Path:
        """The folder of the archive as an absolute path."""
        return (self.home / self.retention.archive).resolve()

    @property
    def broker_url(self) -> str:
        """The URL of the broker: the ledger's Redis unless another is set."""
        return self.broker.url or self.redis_url

    @property
    def rings_in_redis(self) -> bool:
        """Whether the broker is the ledger's Redis."""
        return self.broker_url == self.redis_url

    @property
    def older_sessions(self) -> Path | None:
        """The file of the last release's sessions, if it exists and no other store is set."""
        file = self.state_folder / "sessions.db"
        return file if not self.sessions.url and file.is_file() else None

    @property
    def sessions_url(self) -> str:
        """The URL of ADK's sessions; "" for the ledger's Redis.

        The file of a relative SQLite URL is made absolute.
        """
        if (older := self.older_sessions) is not None:
            return f"{_SQLITE}{older.resolve()}"
        url = self.sessions.url
        if not url.startswith(_SQLITE) or url.startswith((_SQLITE + "/", _SQLITE + ":")):
            return url
        return f"{_SQLITE}{(self.home / url.removeprefix(_SQLITE)).resolve()}"

    @property
    def artifacts_url(self) -> str:
        """The URL of ADK's artifacts."""
        place = self.agents.artifacts
        return place if "://" in place else (self.home / place).resolve().as_uri()

    @property
    def everybody(self) -> Directory:
        """The people with their queues and schedules, in the form that the domain uses."""
        return Directory(
            [self._with_quiet_hours(one) for one in self.people],
            queues=self.queues,
            schedules=self.schedules,
            strangers=self.directory.unknown_requesters == "ask",
            time_zone=self.default.time_zone,
        )

    def _with_quiet_hours(self, person: Person) -> Person:
        """Return a person with the quiet hours of [delivery], unless the person sets their own."""
        if person.quiet_hours is not None or not self.delivery.quiet_hours:
            return person
        return person.model_copy(update={"quiet_hours": True})

    @property
    def all_hidden(self) -> Hidden:
        """The arguments that any policy hides."""
        return all_hidden(self.policies, self.default)

    @property
    def logging(self) -> LogSettings:
        """The settings of the log; it also redacts arguments that a policy hides."""
        hidden = (name.rpartition(".")[2] for name in self.all_hidden)
        redact = tuple(dict.fromkeys((*self.log.redact, *hidden)))
        return self.log.model_copy(update={"redact": redact})

    @property
    def owners(self) -> dict[str, str]:
        """The owners of agents, by the name of the agent or of its folder."""
        return self.agents.owners

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach the gateway, directly or through a proxy."""
        webhook = self.email.webhook
        return (
            not is_loopback(self.gateway.host)
            or not is_loopback(urlsplit(self.inbox.url).hostname or "localhost")
            or bool(self.slack.signing_secret.get_secret_value())
            or bool(webhook.secrets or webhook.mailgun_secrets)
        )

    @property
    def local_programs(self) -> bool:
        """Whether programs on this machine may use the API of ADK's server without a token."""
        given = self.gateway.local
        return not self.gateway.tokens and (not self.is_public if given is None else given)

    @property
    def channel_names(self) -> frozenset[str]:
        """The names of the channels that are set up."""
        return frozenset({EMAIL, *((SLACK,) if self.slack.enabled else ()), *self.channels})

    @property
    def rules(self) -> Sequence[tuple[Loc, Policy | Fallback]]:
        """The policies and the default, each with its place in the settings."""
        policies = [(("policies", at), policy) for at, policy in enumerate(self.policies)]
        return [*policies, (("default",), self.default)]

    @property
    def rules_digest(self) -> str:
        """A digest of the people and policies in force; equal in processes that agree on them."""
        text = self.model_dump_json(include=set(RULES))
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]

    def renewed(self, fresh: "Settings") -> Self:
        """Return these settings with the people and policies of other settings."""
        after = self.model_copy(update={name: getattr(fresh, name) for name in RULES})
        after._places = fresh._places  # noqa: SLF001 -- of the same class
        return after

    def fixed_differences(self, other: "Settings") -> list[str]:
        """Return the sections that differ from other settings and are read only at the start."""
        names = [name for name in type(self).model_fields if name not in RULES]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


def find_file(path: Path | None) -> Path | None:
    """Return the settings file to read; None if there is none and none was named.

    It is the file of ``--config``; else SIGNOFF_CONFIG; else signoff.toml, if it is there.

    Raises:
        ConfigErrors: The named file does not exist, or signoff.toml is not a file.
    """
    variable = os.environ.get(CONFIG_VARIABLE, "")
    named = path or (Path(variable) if variable else None)
    if named is None:
        usual = Path(FILE_NAME)
        # A folder or a broken link is an error: without the file, all policies would be missing.
        if not os.path.lexists(usual):
            return None
        if not usual.is_file():
            what = (
                "a link to nothing" if usual.is_symlink() and not usual.exists() else "not a file"
            )
            remedy = "Put the settings there, or remove it."
            raise ConfigErrors([Fault("", f"it is {what}", remedy, str(usual.absolute()))])
        return usual.resolve()
    if not named.is_file():
        by = "" if path else f", but {CONFIG_VARIABLE} names it"
        what = "it is not a file" if named.exists() else "there is no such file"
        remedy = "Name a file that exists; `signoff config schema` describes its content."
        raise ConfigErrors([Fault("", f"{what}{by}", remedy, str(named))])
    return named.resolve()


def load_settings(path: Path | None = None, kind: str = "") -> Settings:
    """Read the settings: the environment overrides the file, which overrides the defaults.

    While `signoff up` runs in the folder, the settings that it provides override all of them.

    Args:
        path: The file; see `find_file`.
        kind: The kind of process, which gets only its own part of the file; "" gets everything.

    Raises:
        ConfigErrors: The settings have errors of form; each has its file or variable, key and
            remedy. `signoff.cli.config.check` finds settings that contradict each other.
    """
    file = find_file(path)
    # Before the file is read, so that a later change is noticed.
    own = () if file is None else (_stamp(file),)
    text = read_text(file) if file is not None else ""
    content = own_content(kind, parse_toml(text, file))
    variables, unreadable = with_files(os.environ, Settings.model_fields)
    unknown = _unknown_variables()
    for fault in unknown:
        variables.pop(fault.source, None)
    faults = [*unknown, *unreadable]
    home = file.parent if file is not None else Path.cwd()
    try:
        settings = Settings.model_validate(
            _merged(
                content,
                _from_environment(variables),
                own_content(kind, provided(home / STATE_FOLDER)),
            )
        )
    except ValidationError as error:
        found = faults_of(error, Settings)
        raise ConfigErrors(
            faults + [_located(fault, loc, content, text, file) for loc, fault in found]
        ) from error
    except ConfigErrors as error:
        raise ConfigErrors([*faults, *error.faults]) from error
    if faults:
        raise ConfigErrors(faults)
    settings._file = file  # noqa: SLF001 -- only this module has the new object so far
    settings._stamps = (*own, *stamps(settings)[len(own) :])  # noqa: SLF001 -- as above
    return _completed(settings)


def _from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    own = [
        name.upper().removeprefix(PREFIX) for name in variables if name.upper().startswith(PREFIX)
    ]
    if not any(name.partition(NESTED)[0].lower() in Settings.model_fields for name in own):
        return {}
    from signoff.cli.config.environment import read_environment  # noqa: PLC0415 -- see there

    return read_environment(Settings, variables)


def _merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of several sources; a value overrides that of an earlier source."""
    found: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            before = found.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                found[name] = _merged(before, value)
            else:
                found[name] = value
    return found


def stamps(settings: Settings) -> Stamps:
    """Return values that change when a file of the settings changes."""
    names = [settings.directory.csv, *(one.ics for one in settings.schedules)]
    own = [] if settings.file is None else [settings.file]
    return tuple(_stamp(file) for file in [*own, *(settings.home / one for one in names if one)])


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def _completed(settings: Settings) -> Settings:
    """Return the settings with the people, calendars and computed policies of other sources."""
    found = sourced(settings.directory, settings.home)
    faults, schedules = found.faults, []
    for index, schedule in enumerate(settings.schedules):
        text = text_of(settings.home / schedule.ics) if schedule.ics else schedule.calendar
        if isinstance(text, Fault):
            place = source_of(settings, ("schedules", index, "ics"))
            named = f"schedule {schedule.name!r}: ics"
            key = f"schedules[{index}].ics"
            faults.append(Fault(key, text.message, text.remedy, place, place=named))
        else:
            schedules.append(schedule.model_copy(update={"calendar": text}))
    further = computed(settings.policy)
    if isinstance(further, Fault):
        place = source_of(settings, ("policy", "factory"))
        faults.append(Fault(further.key, further.message, further.remedy, place))
        further = []
    if faults:
        raise ConfigErrors(faults)
    people = (*settings.people, *found.people)
    policies = (*settings.policies, *further)
    after = settings.model_copy(
        update={"people": people, "schedules": tuple(schedules), "policies": policies}
    )
    after._places = tuple(found.places)  # noqa: SLF001 -- as above
    return after


def source_of(settings: Settings, loc: Loc) -> str:
    """Return where a setting was read: the variable, or the file and line; "" for a default."""
    if loc[:1] == ("people",) and len(loc) > 1 and isinstance(loc[1], int):
        # People of other sources follow those of the file.
        further = loc[1] - (len(settings.people) - len(settings._places))  # noqa: SLF001 -- as above
        if further >= 0:
            return settings._places[further]  # noqa: SLF001 -- as above
    text = read_text(settings.file) if settings.file is not None else ""
    return _source(loc, text, settings.file)


def _located(
    fault: Fault, loc: Loc, content: dict[str, Any], text: str, file: Path | None
) -> Fault:
    source, place = _source(loc, text, file), place_text(loc, content)
    return Fault(fault.key, fault.message, fault.remedy, source, place=place)


def _source(loc: Loc, text: str, file: Path | None) -> str:
    names = [str(part).upper() for part in loc]
    present = {name.upper(): name for name in os.environ}
    for end in range(len(names), 0, -1):
        variable = PREFIX + NESTED.join(names[:end])
        for name in (variable, variable + FILE):
            if name in present:
                return present[name]
    if file is None:
        return ""
    line = line_of(text, loc)
    return f"{file}:{line}" if line else str(file)


def _unknown_variables() -> list[Fault]:
    """Find variables that look like settings but belong to no section, or to a part of a list."""
    faults = []
    for variable in sorted(os.environ):
        section, nested, _ = variable.upper().removeprefix(PREFIX).partition(NESTED)
        if not variable.upper().startswith(PREFIX) or not nested:
            continue
        if section.lower() not in Settings.model_fields:
            remedy = suggest(section.lower(), Settings.model_fields)
            message = f"there is no section [{section.lower()}]"
            faults.append(Fault(section.lower(), message, remedy, variable))
        elif get_origin(Settings.model_fields[section.lower()].annotation) is tuple:
            message = "it is a list, so its parts have no variables of their own"
            remedy = f"Set {PREFIX}{section} to the whole list, as JSON."
            faults.append(Fault(section.lower(), message, remedy, variable))
    return faults
