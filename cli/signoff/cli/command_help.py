"""The groups of commands in `signoff --help`, and the examples in the help of each command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": ("demo", "init", "up", "run", "mailbox", "inbox"),
    "Requests and decisions": ("approvals", "runs", "queue", "grants", "freeze", "thaw", "card"),
    "People and policies": ("people", "policy"),
    "Set up": ("config", "doctor", "slack", "redis", "tokens", "aap", "mcp", "webhooks", "api"),
    "Processes": ("worker", "channels", "gateway", "health"),
    "Watch and look after": (
        "top",
        "tail",
        "mail",
        "audit",
        "receipt",
        "archive",
        "ledger",
        "sessions",
    ),
}
"""The headings of `signoff --help`, with the commands below each."""

ASK: Final = "Reimburse me 2500 for the conference"
"""A message that the example agent `finance` needs an approval for."""

_AP: Final = "ap_ai5sdum2xsw3dw77"
_RUN: Final = "run_4ccc98088d306831"
_FINANCE: Final = f'signoff run finance "{ASK}" --user nora@example.com'

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "demo": (
        "signoff demo",
        "signoff demo --open",
        'signoff demo --app time_off --reply "approve 3"',
    ),
    "init": ("signoff init", 'signoff init --name "Ana Díaz" --email ana@example.com'),
    "up": ("signoff up",),
    "run": (_FINANCE, f"{_FINANCE} --wait"),
    "mailbox list": ("signoff mailbox list",),
    "mailbox show": ("signoff mailbox show last",),
    "mailbox reply": (
        'signoff mailbox reply last "approve"',
        'signoff mailbox reply last "reject over budget"',
    ),
    "mailbox serve": ("signoff mailbox serve --port 2525",),
    "inbox link": ("signoff inbox link mara",),
    "approvals list": (
        "signoff approvals list --person mara",
        "signoff approvals list --state rejected --json",
    ),
    "approvals show": (f"signoff approvals show {_AP}",),
    "approvals approve": (f"signoff approvals approve {_AP} --as mara",),
    "approvals reject": (f'signoff approvals reject {_AP} --as mara --reason "over budget"',),
    "approvals withdraw": (f'signoff approvals withdraw {_AP} --reason "booked elsewhere"',),
    "approvals break-glass": (
        f'signoff approvals break-glass {_AP} --as tom --reason "the shop is down"',
    ),
    "approvals claim": (f"signoff approvals claim {_AP} --as mara --for 30m",),
    "approvals release": (f"signoff approvals release {_AP} --as mara",),
    "approvals reassign": (
        f'signoff approvals reassign {_AP} --from mara --to tom --reason "my week off"',
    ),
    "approvals remind": (f"signoff approvals remind {_AP}",),
    "approvals ask": (f'signoff approvals ask {_AP} "Which conference?" --as mara',),
    "approvals comment": (f'signoff approvals comment {_AP} "PyCon, in May" --as nora',),
    "approvals extend": (f'signoff approvals extend {_AP} --by 2h --reason "Mara is on a train"',),
    "approvals review": ("signoff approvals review --as mara --queue finance",),
    "runs list": ("signoff runs list --limit 10",),
    "runs show": (f"signoff runs show {_RUN}",),
    "runs settle": (f'signoff runs settle {_RUN} --reason "paid once, says the bank"',),
    "queue list": ("signoff queue list --watch",),
    "queue show": ("signoff queue show finance",),
    "queue figures": ("signoff queue figures",),
    "grants give": (f"signoff grants give {_AP} --for 4h --uses 5 --as mara",),
    "grants list": ("signoff grants list",),
    "grants show": ("signoff grants show gr_ai5sdum2xsw3dw77",),
    "grants revoke": ('signoff grants revoke gr_ai5sdum2xsw3dw77 --reason "the trip is over"',),
    "freeze": ("signoff freeze", 'signoff freeze --tool reimburse --why "wrong account"'),
    "thaw": ("signoff thaw --tool reimburse",),
    "card": (f"signoff card {_AP}", f"signoff card {_AP} --for slack"),
    "people list": ("signoff people list",),
    "people away": ("signoff people away mara --until 2026-12-24 --delegate tom",),
    "people back": ("signoff people back mara",),
    "people on-call": (
        "signoff people on-call",
        'signoff people on-call on-call --at "Friday 18:00"',
    ),
    "people enroll": ("signoff people enroll mara",),
    "people unenroll": ("signoff people unenroll mara",),
    "people reseal": ("signoff people reseal",),
    "people sign-out": ("signoff people sign-out mara",),
    "people erase": ('signoff people erase nora --reason "request of 3 March"',),
    "policy explain": (
        (
            "signoff policy explain --tool reimburse --arg amount=2500 --user nora@example.com "
            '--at "Friday 17:30"'
        ),
    ),
    "policy test": ("signoff policy test", "signoff policy test --junit report.xml"),
    "policy diff": ("signoff policy diff --against signoff.old.toml",),
    "policy history": ("signoff policy history expenses",),
    "config check": ("signoff config check",),
    "config show": ("signoff config show",),
    "config diff": ("signoff config diff signoff.new.toml",),
    "config schema": ("signoff config schema > signoff.schema.json",),
    "doctor": ("signoff doctor", "signoff doctor --json"),
    "slack manifest": ("signoff slack manifest > manifest.json",),
    "redis acl": ("signoff redis acl --out acl",),
    "tokens create": (
        "signoff tokens create --person mara --scope approvals:read --expires 90d",
        "signoff tokens create --user '*' --app finance --scope runs:submit",
    ),
    "tokens list": ("signoff tokens list",),
    "tokens revoke": ("signoff tokens revoke ai5sdum2xs",),
    "aap instance add": (
        "signoff aap instance add support --user riley@example.com",
        "signoff aap instance add desk --receiver https://agent.example.com/aap/events",
    ),
    "aap instance list": ("signoff aap instance list",),
    "aap instance rotate": ("signoff aap instance rotate support",),
    "aap instance remove": ("signoff aap instance remove support",),
    "mcp gate": (
        "signoff mcp gate --name files --user riley@example.com -- npx -y server-files /srv",
        "signoff mcp gate --name crm --url https://crm.example.com/mcp --env-file crm.env",
    ),
    "webhooks list": ("signoff webhooks list",),
    "webhooks replay": ("signoff webhooks replay books",),
    "api openapi": ("signoff api openapi > openapi.json",),
    "worker": ("signoff worker", "signoff worker --app finance"),
    "channels": ("signoff channels",),
    "gateway": ("signoff gateway",),
    "health": ("signoff health worker",),
    "top": ("signoff top", "signoff top --once --json"),
    "tail": ("signoff tail", f"signoff tail --of {_RUN}"),
    "mail explain": ("signoff mail explain reply.eml", "signoff mail explain --text reply.txt"),
    "mail quarantine list": ("signoff mail quarantine list",),
    "mail quarantine show": ("signoff mail quarantine show 3f2a91",),
    "mail quarantine retry": (
        'signoff mail quarantine retry 3f2a91 --reason "the limit is raised"',
    ),
    "mail quarantine drop": ('signoff mail quarantine drop 3f2a91 --reason "spam"',),
    "audit verify": ("signoff audit verify",),
    "audit export": (f"signoff audit export --of {_RUN} > audit.jsonl",),
    "receipt show": (f"signoff receipt show {_AP}",),
    "receipt verify": (f"signoff receipt verify {_AP}",),
    "receipt keys": ("signoff receipt keys",),
    "receipt new-key": ("signoff receipt new-key",),
    "receipt rotate": ("signoff receipt rotate",),
    "archive run": ("signoff archive run --after 90d",),
    "archive list": ("signoff archive list",),
    "archive show": (f"signoff archive show {_RUN}",),
    "archive verify": ("signoff archive verify",),
    "archive export": (f"signoff archive export --of {_RUN} > run.jsonl",),
    "sessions move": ("signoff sessions move",),
    "ledger rebuild": ("signoff ledger rebuild",),
    "ledger backup": ("signoff ledger backup ledger.gz",),
    "ledger restore": ("signoff ledger restore ledger.gz",),
}
"""Command lines for each command, by its words."""


def add_examples(command: Any, words: Sequence[str]) -> Any:  # noqa: ANN401 -- typer's own click
    """Add examples to the help of a command and its subcommands, and hide the types of flags.

    The words are those of the command, without ``signoff``.
    """
    for name, inner in getattr(command, "commands", {}).items():
        add_examples(inner, [*words, name])
    if lines := EXAMPLES.get(" ".join(words)):
        command.epilog = "Examples:\n\n" + "\n\n".join(f"`{line}`" for line in lines)
    get_params = command.get_params
    command.get_params = lambda ctx: without_flag_types(get_params(ctx))
    return command


def without_flag_types(params: list[Any]) -> list[Any]:
    """Return options whose help shows no ``<bool>`` for flags."""
    for one in params:
        if getattr(one, "is_flag", False):
            one.display_type_rich = lambda **_: None
    return params


def group_of(name: str) -> str | None:
    """Return the heading of a command in the help."""
    return next((group for group, names in GROUPS.items() if name in names), None)
