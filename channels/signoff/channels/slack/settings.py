"""The settings of the Slack channel: the table `[slack]`."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

_BOT = "xoxb-"
_ROTATED = "xoxe."
_APP = "xapp-"


class SlackSettings(BaseModel):
    """The Slack channel; a bot token enables it.

    Attributes:
        bot_token: The app's bot token, ``xoxb-…``.
        app_token: The app-level token for Socket Mode, ``xapp-…``. Without it, clicks come over
            HTTP.
        signing_secret: Verifies HTTP requests from Slack.
        connections: How many Socket Mode connections a gateway opens. With two or more, one can be
            renewed while another receives clicks.
        base_url: The Web API. Change it for tests and for GovSlack.
        timeout: Seconds for one call of the Web API.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    bot_token: SecretStr = SecretStr("")
    app_token: SecretStr = SecretStr("")
    signing_secret: SecretStr = SecretStr("")
    connections: int = Field(default=2, ge=1, le=10)
    base_url: str = Field(default="https://slack.com/api/", pattern=r"^https?://[^\s]+/$")
    timeout: float = Field(default=10, gt=0, le=60)

    @property
    def enabled(self) -> bool:
        """Whether cards can be sent."""
        return bool(self.bot_token.get_secret_value())

    @property
    def socket_mode(self) -> bool:
        """Whether clicks come over Socket Mode."""
        return bool(self.app_token.get_secret_value())

    @property
    def takes_clicks(self) -> bool:
        """Whether clicks can be received."""
        return self.socket_mode or bool(self.signing_secret.get_secret_value())

    @model_validator(mode="after")
    def _complete(self) -> Self:
        bot, app = self.bot_token.get_secret_value(), self.app_token.get_secret_value()
        secret = self.signing_secret.get_secret_value()
        if bot.startswith(_ROTATED):
            raise ValueError(
                "bot_token expires after 12 hours, because the app has token rotation, which Slack "
                "cannot turn off again: create another app from `signoff slack manifest`"
            )
        if bot and not bot.startswith(_BOT):
            raise ValueError(f"bot_token begins with {_BOT}: it is the Bot User OAuth Token")
        if app and not app.startswith(_APP):
            raise ValueError(f"app_token begins with {_APP}: it is the App-Level Token")
        if (app or secret) and not bot:
            raise ValueError("bot_token is missing: without it no card can be sent")
        return self
