"""Checks where the ledger, the broker and the agents are."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from signoff.broker.server.hosts import NO_URL, split_url
from signoff.cli.config.faults import Fault, Found, Loc, defect, export, warning
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import ConfigError
from signoff.core.base.networks import is_loopback

_REDIS = ("redis", "rediss", "unix", "sentinel", "redis+cluster", "rediss+cluster")
_BROKER = (*(one for one in _REDIS if one != "unix"), "amqp", "amqps", "pyamqp")


def check(settings: Settings) -> Iterator[Found]:
    """Find URLs and folders that cannot be right."""
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


def code(settings: Settings) -> Iterator[Found]:
    """Find a missing key: a worker can resume suspended code only with the key that signed it."""
    try:
        redis = urlsplit(settings.redis.url)
        shared = bool(redis.hostname) and not is_loopback(redis.hostname or "")
    except ValueError:
        shared = False  # reported by `check`
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


def _is_database(path: str) -> bool:
    return path in {"", "/"} or path.removeprefix("/").isdigit()
