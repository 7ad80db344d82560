"""The Slack checks of `signoff doctor`: whether cards can be sent and clicks received."""

from __future__ import annotations

import asyncio
import string
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SCOPES, SlackWeb
from signoff.core.base.errors import SlackError
from signoff.core.directory.people import Person

_SECRET = 32
_MOST_PEOPLE = 20


class CheckResult(NamedTuple):
    """The result of one check; the problem is "" if it passed."""

    about: str
    problem: str
    text: str = ""


async def check(
    settings: SlackSettings, channels: Iterable[str], people: Iterable[Person]
) -> list[CheckResult]:
    """Check the tokens, scopes, channels of policies and people, without posting anything."""
    web = SlackWeb(settings)
    try:
        return [found async for found in _results(web, settings, channels, people)]
    finally:
        await web.close()


async def _results(
    web: SlackWeb, settings: SlackSettings, channels: Iterable[str], people: Iterable[Person]
) -> AsyncIterator[CheckResult]:
    try:
        me = await web.whoami()
    except SlackError as error:
        yield CheckResult("bot_token", str(error))
        return
    yield CheckResult("bot_token", "", f"it is good for {me.url or me.team}")
    yield await _scopes(web)
    yield await _clicks(web, settings)
    named = sorted(set(channels))
    for found in await asyncio.gather(*(_channel(web, channel) for channel in named)):
        yield found
    asked = list(people)[:_MOST_PEOPLE]
    for found in await asyncio.gather(*(_person(web, person) for person in asked)):
        if found.problem:
            yield found


async def _scopes(web: SlackWeb) -> CheckResult:
    try:
        missing = sorted(set(SCOPES) - await web.scopes())
    except SlackError as error:
        return CheckResult("scopes", str(error))
    advice = "install the app again from `signoff slack manifest`"
    return CheckResult("scopes", f"{', '.join(missing)} are missing; {advice}" if missing else "")


async def _clicks(web: SlackWeb, settings: SlackSettings) -> CheckResult:
    if settings.socket_mode:
        try:
            await web.can_connect(settings.app_token.get_secret_value())
        except SlackError as error:
            return CheckResult("app_token", f"{error} It needs the scope connections:write.")
        return CheckResult("app_token", "", f"clicks come over {settings.connections} connections")
    secret = settings.signing_secret.get_secret_value()
    if len(secret) != _SECRET or set(secret) - set(string.hexdigits):
        problem = "it does not have the form of a Signing Secret: 32 hexadecimal digits"
        return CheckResult("signing_secret", problem)
    return CheckResult("signing_secret", "", "clicks come by HTTP to /slack/interactions")


async def _channel(web: SlackWeb, channel: str) -> CheckResult:
    try:
        inside = await web.is_member(channel)
    except SlackError as error:
        return CheckResult(f"channel {channel}", str(error))
    problem = "" if inside else "the app is not in it: /invite it there"
    return CheckResult(f"channel {channel}", problem)


async def _person(web: SlackWeb, person: Person) -> CheckResult:
    about = f"person {person.id}"
    try:
        if person.slack:
            await web.member(person.slack.rpartition("/")[2])
        else:
            await web.user_of(person.email)
    except SlackError as error:
        return CheckResult(about, str(error))
    return CheckResult(about, "")
