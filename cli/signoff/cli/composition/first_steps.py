"""The three lines that `signoff init` and `signoff up` print: the page, a run, and an answer."""

from __future__ import annotations

from signoff.cli.command_help import ASK
from signoff.cli.config.settings import Settings
from signoff.worker.agent_folders import app_names


def first_steps(settings: Settings) -> list[str]:
    """Return the URL of the page, a command that runs an agent, and one that answers."""
    url = settings.inbox.url or f"http://localhost:{settings.gateway.port}"
    people = [one.id for one in settings.people]
    rules = [*settings.policies, settings.default]
    named = [who for rule in rules for who in rule.references]
    approver = next((who for who in named if who in people), "PERSON")
    requester = next((one.email for one in settings.people if one.id not in named), "")
    folder = settings.agents_folder
    apps = app_names(folder) if folder.is_dir() else []
    app = "finance" if "finance" in apps else next(iter(apps), "AGENT")
    message = ASK if app == "finance" else "…"
    user = f" --user {requester}" if requester else ""
    answer = 'signoff mailbox reply last "approve"'
    if "smtp" in settings.email.model_fields_set or settings.slack.enabled:
        answer = f"signoff approvals approve ID --as {approver}"
    return [
        f"Page:   {url}/ (sign in: signoff inbox link {approver})",
        f'Run:    signoff run {app} "{message}"{user}',
        f"Answer: {answer}",
    ]
