"""The settings of agents behind an ADK API server: the tables `[agents.remote.<app>]`."""

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, model_validator

from signoff.core.base.model import Value

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text!r} is not a URL like http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise ValueError("a URL with a password in it ends up in logs; set `token` or `headers`")
    if parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ValueError("the URL ends before '?' and '#', and has no blanks")
    return text.rstrip("/")


def _no_line_breaks(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not text.isascii() or not text.isprintable():
        raise ValueError("a header has no line breaks and no characters beyond ASCII")
    return secret


Url = Annotated[str, AfterValidator(_base_url)]
HeaderValue = Annotated[SecretStr, AfterValidator(_no_line_breaks)]
AppName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", min_length=1, max_length=64)
]
"""Our name for an app: the `app` of `signoff.core.approvals.run.Run`."""


class RemoteApp(Value):
    """[agents.remote.<app>]: an agent behind an ADK API server."""

    url: Url = Field(description="The address of its API server: http://127.0.0.1:8000.")
    app_name: str = Field(
        "",
        max_length=128,
        description="The server's name for the app. The default is the name of this table.",
    )
    token: HeaderValue = Field(
        SecretStr(""), description="Sent as `Authorization: Bearer …` with every request."
    )
    headers: dict[str, HeaderValue] = Field(
        default_factory=dict, description="Additional headers for every request."
    )
    endpoint: Literal["run_sse", "run"] = Field(
        "run_sse",
        description="The endpoint that starts a turn. Use `run` for servers that do not stream.",
    )
    resumable: bool = Field(
        False,
        description="Whether the app has `ResumabilityConfig(is_resumable=True)`, which its server"
        " does not report. Answers can then be given one at a time.",
    )
    reasons: Literal["auto", "message", "state"] = Field(
        "auto",
        description="How the agent gets the reason of a rejection: `state` puts it into the "
        "session state `signoff_refusal`, which the agent's instruction can quote; "
        "`message` also sends a message after the turn; `auto` sends a message if the "
        "server reports that the root agent is an LlmAgent.",
    )
    timeout: float = Field(
        600,
        gt=0,
        le=86_400,
        description="Seconds without data after which a turn counts as lost. It must be longer "
        "than the slowest tool.",
    )

    @model_validator(mode="after")
    def _headers_can_be_sent(self) -> Self:
        for name in self.headers:
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a header")
            if name.lower() == "authorization" and self.token.get_secret_value():
                raise ValueError("`token` and a header `Authorization` cannot both be set")
        return self


RemoteApps = dict[AppName, RemoteApp]
"""[agents.remote]: the remote agents, by the name under which runs are submitted."""
