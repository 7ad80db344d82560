"""A custom channel: named in the settings, it asks people and takes their answers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import make_call, opened, present
from channels.mattermost import FILE, Server, mattermost
from deciding import over
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.route import Router
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.slack import further_channels
from signoff.cli.config.check import check
from signoff.cli.config.settings import load_settings
from signoff.cli.doctor.diagnosis import own_channels
from signoff.cli.gateway import assemble
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "add-a-channel.md"

SETTINGS = """
[redis]
url = "{redis}"
prefix = "{prefix}"

[channels.mattermost]
factory = "mattermost:Mattermost"
url = "{mattermost}"
bot = "bot"
command_token = "secret"

[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"
addresses = {{ mattermost = "user-mara" }}

[[people]]
id = "cleo"
email = "cleo@example.com"
addresses = {{ mattermost = "user-cleo" }}

[[policies]]
name = "expenses"
ask = ["mara"]
channels = ["mattermost"]

[default]
ask = ["cleo"]
"""


@dataclass
class Firm:
    """The parts of `signoff channels` and `signoff gateway`, with a custom channel."""

    parts: Parts
    mattermost: Server
    http: httpx.AsyncClient

    async def open(self, **args: Any) -> Approval:
        """Open a request, and post its card."""
        decider = over(self.parts.decisions)
        approval = await opened(decider, make_call(**args), user="riley@example.com")
        await self.work()
        return await decider.ledger.approval(approval.id)

    async def work(self) -> None:
        """Route and deliver all waiting work."""
        settings, parts = self.parts.settings, self.parts
        channels = further_channels(parts).channels
        await Router(
            parts.ledger,
            policies=settings.policies,
            fallback=settings.default,
            directory=parts.decisions.directory,
            channels=["email", *(one.name for one in channels)],
        ).drain()
        for one in channels:
            await Delivery(parts.ledger, one, directory=parts.decisions.directory).drain()

    async def say(self, text: str, *, user: str = "user-mara", **more: str) -> httpx.Response:
        """Send a slash command as Mattermost does, and process it."""
        form = {"token": "secret", "user_id": user, "user_name": "x", "text": text, **more}
        answer = await self.http.post(
            "/mattermost/command", data={"trigger_id": f"t-{text}-{user}", **form}
        )
        await self.work()
        return answer

    def shown(self) -> list[str]:
        """Return the texts of the posts, the oldest first."""
        return [post["message"] for post in self.mattermost.posts.values()]


@pytest.fixture
async def firm(
    tmp_path: Path, redis_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Firm]:
    """Return a firm on a server with Mara and Cleo."""
    monkeypatch.syspath_prepend(FILE.parent)
    monkeypatch.setenv("SIGNOFF_CHANNELS__MATTERMOST__TOKEN", "right")
    async with mattermost("user-mara", "user-cleo") as there:
        file = tmp_path / "signoff.toml"
        file.write_text(SETTINGS.format(redis=redis_url, prefix=prefix, mattermost=there.url))
        parts = build(load_settings(file))
        app, _ = assemble(parts)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            yield Firm(parts, there, http)
        await parts.ledger.close()


@pytest.mark.parametrize(
    ("words", "state", "said"),
    [
        ("approve", State.APPROVED, "Recorded: you approved reimburse"),
        ("reject: over budget", State.REJECTED, "over budget"),
    ],
)
async def test_from_the_card_to_the_outcome(
    firm: Firm, words: str, state: State, said: str
) -> None:
    """The card is posted, its answer decides, and the card is rewritten."""
    approval = await firm.open()
    assert "amount: 2500" in firm.shown()[0]
    assert f"/signoff {approval.id} approve" in firm.shown()[0]

    answer = await firm.say(f"{approval.id} {words}")

    assert "was received" in answer.json()["text"]
    after = await firm.parts.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by, present(after.decision).channel) == (
        state,
        "mara",
        "mattermost",
    )
    (card,) = firm.shown()
    assert said in card
    assert "amount: 2500" in card


async def test_unclear_answer_gets_an_example_in_the_thread(firm: Firm) -> None:
    """An unclear answer decides nothing, and the thread has an example."""
    approval = await firm.open()
    await firm.say(f"{approval.id} banana")
    assert (await firm.parts.ledger.approval(approval.id)).state is State.PENDING
    notice = list(firm.mattermost.posts.values())[-1]
    assert notice["root_id"] == "post1"
    assert "approve" in notice["message"]


async def test_unasked_and_unknown_people_cannot_decide(firm: Firm) -> None:
    """Other people, a stranger and a forged command get a message, and nothing is decided."""
    approval = await firm.open()
    forged = await firm.say(f"{approval.id} approve", token="guessed")
    assert forged.status_code == 401
    stranger = await firm.say(f"{approval.id} approve", user="user-eve")
    assert "Your account is not in the directory" in stranger.json()["text"]
    await firm.say(f"{approval.id} approve", user="user-cleo")
    assert "You cannot decide" in firm.shown()[-1]
    unknown = await firm.say("ap_none approve")
    assert "There is no approval 'ap_none'" in unknown.json()["text"]
    large = await firm.say("x" * 100_000)
    assert large.status_code == 413
    assert (await firm.parts.ledger.approval(approval.id)).state is State.PENDING


async def test_an_agents_text_is_literal(firm: Firm) -> None:
    """No line of an agent's text starts where Mattermost reads markup."""
    await firm.open(note="@all see\n[your bank](https://evil.example)\n```\n@here")
    text = firm.shown()[0]
    assert not re.search(r"^(?!    ).*(@all|evil|@here)", text, re.MULTILINE)


async def test_card_refused_by_the_channel_is_sent_by_mail(firm: Firm) -> None:
    """A card that the channel refuses goes to the same person by mail."""
    firm.mattermost.users.clear()
    approval = await firm.open()
    await firm.work()
    after = await firm.parts.ledger.approval(approval.id)
    assert [(one.channel, one.person) for one in after.asked] == [
        ("mattermost", "mara"),
        ("email", "mara"),
    ]


async def test_doctor_reports_whether_the_channel_can_be_built(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`signoff doctor` reports whether a channel can be built, or why not."""
    (good,) = own_channels(firm.parts.settings)
    assert (good.level, good.text) == (
        "good",
        "mattermost:Mattermost sends cards and takes answers",
    )
    table = firm.parts.settings.channels["mattermost"].model_copy(update={"factory": "nowhere:X"})
    monkeypatch.setitem(firm.parts.settings.channels, "mattermost", table)
    (broken,) = own_channels(firm.parts.settings)
    assert broken.level == "broken"
    assert "nowhere:X cannot be loaded" in broken.text


BROKEN = {
    "a module that is not there": ("nowhere:Channel", {}, "nowhere:Channel cannot be loaded"),
    "a name that is not in it": ("mattermost:Nothing", {}, "cannot be loaded: AttributeError"),
    "a setting that is missing": ("mattermost:Mattermost", {}, "refuses its settings: KeyErr"),
    "something else": ("builtins:dict", {"a": 1}, "refuses its settings"),
    "what is not a channel": ("types:SimpleNamespace", {}, "refuses its settings"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_invalid_channel_is_a_settings_error(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the table, the problem and a suggestion."""
    monkeypatch.syspath_prepend(FILE.parent)
    factory, more, said = BROKEN[case]
    file = tmp_path / "signoff.toml"
    extra = "".join(f"{key} = {value}\n" for key, value in more.items())
    file.write_text(f'[channels.chat]\nfactory = "{factory}"\n{extra}')
    with pytest.raises(ConfigError, match=said) as caught:
        further_channels(build(load_settings(file)))
    assert caught.value.key.startswith("channels.chat")


WRONG = {
    "a name of ours": ('[channels.inbox]\nfactory = "a:b"', "'inbox' is reserved by Signoff"),
    "no factory": ("[channels.chat]\nurl = 'x'", "'factory' is missing"),
    "no module": (
        '[channels.chat]\nfactory = "a.b"',
        "a module and a function like",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_table_that_is_wrong_is_refused(case: str, tmp_path: Path) -> None:
    """A channel cannot use a reserved name, and needs a factory."""
    text, said = WRONG[case]
    file = tmp_path / "signoff.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_settings(file)


ODD = {
    "a channel that is not there": (('channels = ["mattermost"]', 'channels = ["mattermots"]'),
        "policies[0].channels", "Did you mean 'mattermost'"),
    "an address for none": (('mattermost = "user-cleo"', 'chat = "user-cleo"'),
        "people[1].addresses.chat", "not a channel of your own"),
    "one address for two": (("user-cleo", "user-mara"),
        "people[1].addresses.mattermost", "already the address of 'mara'"),
    "somebody without": (('ask = ["mara"]', 'ask = ["mara", "tom"]'),
        "policies[0].channels", "another channel: tom"),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_channels_and_addresses_fit_together(case: str, tmp_path: Path) -> None:
    """`signoff config check` names the policy or person with an unsuitable channel."""
    (old, new), key, said = ODD[case]
    text = SETTINGS.format(redis="redis://127.0.0.1/0", prefix="x", mattermost="http://127.0.0.1")
    tom = '\n[[people]]\nid = "tom"\nemail = "tom@example.com"\n'
    file = tmp_path / "signoff.toml"
    file.write_text(text.replace(old, new) + tom)
    found = [(one.key, str(one)) for one in check(load_settings(file))]
    assert any(key == one and said in words for one, words in found), found


def test_documentation_shows_the_tested_example() -> None:
    """docs/how-to/add-a-channel.md shows the tested file, which is short."""
    code = FILE.read_text(encoding="utf-8")
    assert f"```python\n{code}```" in PAGE.read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 65
