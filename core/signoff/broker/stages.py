"""The names of the stages, and of their Celery queues and tasks.

The work of a stage is in its outbox in the ledger. The Celery queue carries only doorbells: "there
is work for this stage".
"""

from __future__ import annotations

from typing import Final

ROUTE: Final = "route"
INTAKE: Final = "intake"
DELIVER: Final = "deliver"
SIGN_IN: Final = "sign_in"
PUSH: Final = "push"
WEBHOOK: Final = "webhook"
AAP: Final = "aap"
RUN: Final = "run"
RESUME: Final = "resume"


def deliver(channel: str) -> str:
    """Return the stage that delivers through one channel: ``deliver.email``."""
    return f"{DELIVER}.{channel}"


def webhook(name: str) -> str:
    """Return the stage that posts to one webhook: ``webhook.erp``."""
    return f"{WEBHOOK}.{name}"


def run(app: str) -> str:
    """Return the stage that starts runs of one app: ``run.finance``."""
    return f"{RUN}.{app}"


def resume(app: str) -> str:
    """Return the stage that resumes runs of one app: ``resume.finance``."""
    return f"{RESUME}.{app}"


def queue(stage: str) -> str:
    """Return the Celery queue of a stage: ``signoff.run.finance``."""
    return f"signoff.{stage}"


def task(stage: str) -> str:
    """Return the Celery task name of a stage; apps share one task: ``signoff.run``."""
    head, _, _ = stage.partition(".")
    return f"signoff.{head}" if head in {RUN, RESUME} else f"signoff.{stage}"
