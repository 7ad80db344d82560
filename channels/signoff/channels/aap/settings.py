"""The settings of the Agent Approval Protocol: [aap]."""

from datetime import timedelta
from typing import Final

from pydantic import Field

from signoff.channels.web.settings import SettingsTable
from signoff.core.base.durations import Duration

REQUESTS_KEPT: Final = timedelta(days=8)
"""How long a request and its key are kept at least: the protocol wants seven days after the
decision, and a day after the last attempt to notify a receiver."""


class AapSettings(SettingsTable):
    """[aap]: agents that ask by the Agent Approval Protocol."""

    enabled: bool = Field(
        False,
        description="Serve the Agent Approval Protocol under /aap, for the instances that `signoff "
        "aap instance add` makes.",
    )
    report_within: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(seconds=1),
        description="How long a call may run. A call that an agent has started, and whose outcome "
        "it has not reported by then, is in doubt.",
    )
    allow_private: bool = Field(
        False,
        description="Allow receivers of notifications on private networks and this machine, and "
        "plain HTTP.",
    )
