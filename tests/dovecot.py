"""A real Dovecot for tests: IMAP and LMTP on loopback, in a folder that the test removes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Final

import pytest

from ports import free_port
from services import missing

PASSWORD: Final = "secret"
READ_ONLY: Final = "readonly"
"""A mailbox whose owner may only read it."""
KEY: Final = b"a key that only the tests and their Dovecot know"
_PATIENCE = 300.0

_CONFIG = """
protocols = imap lmtp
listen = 127.0.0.1
base_dir = {run}/run
state_dir = {run}/run
ssl = {ssl}
{certificate}
disable_plaintext_auth = {tls_only}
log_path = {run}/log
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
first_valid_uid = 0
mail_location = maildir:{run}/mail/%u
mail_uid = {user}
mail_gid = {group}
recipient_delimiter = +
auth_username_format = %Ln
lmtp_hdr_delivery_address = final
imap_idle_notify_interval = 2 mins
imap_capability = {capability}
auth_mechanisms = plain login xoauth2 oauthbearer
auth_failure_delay = 0
passdb {{
  driver = static
  mechanisms = plain login
  args = password={password}
}}
passdb {{
  driver = oauth2
  mechanisms = xoauth2 oauthbearer
  args = {run}/oauth2.conf
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={run}/mail/%u allow_all_users=yes
}}
namespace inbox {{
  inbox = yes
}}
mail_plugins = acl
protocol imap {{
  mail_plugins = acl imap_acl
}}
plugin {{
  acl = vfile:{run}/acl
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = {imaps_ssl}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
service auth {{
  chroot =
}}
service auth-worker {{
  user = {user}
}}
"""

_OAUTH = """
introspection_mode = local
local_validation_key_dict = fs:posix:prefix={run}/keys/
username_attribute = email
"""


@dataclass
class Dovecot:
    """A Dovecot that runs or was stopped.

    Every name is a mailbox with the password ``PASSWORD``. It also gets mail for ``name+detail``.

    Attributes:
        folder: The folder of all its files.
        imap: The port of IMAP, without TLS or with STARTTLS.
        imaps: The port of IMAP over TLS, if there is a certificate.
        lmtp: The port of LMTP.
    """

    folder: Path
    imap: int
    imaps: int
    lmtp: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait for its greeting."""
        program = _program()
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [program, "-F", "-c", str(self.folder / "dovecot.conf")],
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        for port in (self.imap, self.lmtp):
            self._wait_for(port)

    def stop(self) -> None:
        """Stop it and all its children, which closes all connections."""
        process, self.process = self.process, None
        if process is None:
            return
        # Its children have process groups of their own, so find them by their parent.
        children = _children(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in children:
            _end(child)

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    def cut(self) -> None:
        """Close the connections of logged-in clients, and continue to serve."""
        assert self.process is not None
        for child in _children(self.process.pid):
            if _command(child).startswith("dovecot/imap") and "login" not in _command(child):
                _end(child)

    def mailbox(self, name: str) -> Path:
        """Return the maildir of a mailbox."""
        return self.folder / "mail" / name

    def renumber(self, name: str) -> None:
        """Give all messages of a mailbox new UIDs and a new UIDVALIDITY, as a restore does."""
        self.stop()
        listed = self.mailbox(name) / "dovecot-uidlist"
        head, _, rest = listed.read_text().partition("\n")
        fields = [f"V{int(one[1:]) + 1000}" if one.startswith("V") else one for one in head.split()]
        listed.write_text("\n".join([" ".join(fields), rest]))
        for index in self.mailbox(name).glob("dovecot.index*"):
            index.unlink()
        self.start()

    @contextmanager
    def restored(self, name: str) -> Iterator[None]:
        """Back a mailbox up before the body, and restore it as it was then after the body."""
        copy = self.folder / f"backup-{name}"
        self.stop()
        # Unlike `shutil`, this keeps the owners.
        subprocess.run(["cp", "-a", self.mailbox(name), copy], check=True)
        self.start()
        try:
            yield
        finally:
            self.stop()
            shutil.rmtree(self.mailbox(name))
            copy.rename(self.mailbox(name))
            self.start()

    def log(self) -> str:
        """Return its log."""
        return (self.folder / "log").read_text()

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        assert self.process is not None
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
                    if probe.recv(4) in {b"* OK", b"220 "}:
                        return
            except OSError:
                pass
            time.sleep(0.05)
        said = (self.folder / "output").read_text() + (
            self.log() if (self.folder / "log").exists() else ""
        )
        pytest.fail(f"Dovecot did not start: {said[-800:]}")


@contextmanager
def dovecot(*, capability: str = "", certificate: Path | None = None) -> Iterator[Dovecot]:
    """Start a Dovecot, and stop it with all its children.

    Args:
        capability: The capabilities that it announces, instead of all its capabilities.
        certificate: A file with certificate and key; TLS and STARTTLS are served with it.
    """
    _program()
    # Other users cannot enter pytest's folders, and Dovecot's helpers are not root.
    with tempfile.TemporaryDirectory(prefix="dovecot-", dir="/tmp") as name:
        folder = Path(name)
        user, group = ("nobody", "nogroup") if os.geteuid() == 0 else _ourselves()
        for part in ("run", "mail", "keys/default/HS256"):
            (folder / part).mkdir(parents=True)
        (folder / "keys/default/HS256/default").write_text(base64.b64encode(KEY).decode())
        made = Dovecot(folder, free_port(), free_port() if certificate else 0, free_port())
        secure = certificate is not None
        if certificate is not None:
            shutil.copy(certificate, folder / "tls.pem")
        places = f"ssl_cert = <{folder}/tls.pem\nssl_key = <{folder}/tls.pem" if secure else ""
        (folder / "acl").write_text(f"INBOX user={READ_ONLY} lr\n")
        (folder / "oauth2.conf").write_text(_OAUTH.format(run=folder))
        (folder / "dovecot.conf").write_text(
            _CONFIG.format(
                run=folder,
                user=user,
                group=group,
                password=PASSWORD,
                capability=capability,
                ssl="yes" if secure else "no",
                imaps_ssl="yes" if secure else "no",
                tls_only="yes" if secure else "no",
                certificate=places,
                imap=made.imap,
                imaps=made.imaps,
                lmtp=made.lmtp,
            )
        )
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, user, group)
        made.start()
        try:
            yield made
        finally:
            made.stop()


def jwt(mailbox: str, *, expires: float, key: bytes = KEY) -> str:
    """Return an access token that Dovecot accepts for a mailbox (RFC 7519, HS256).

    Args:
        mailbox: The mailbox of the token.
        expires: The time of its expiry, in seconds since the epoch.
        key: The key that signs it.
    """
    parts = [
        {"alg": "HS256", "typ": "JWT"},
        {"email": mailbox, "sub": mailbox, "exp": int(expires), "iat": int(expires) - 3600},
    ]
    signed = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_base64url(digest(key, signed.encode(), sha256))}"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _program() -> str:
    found = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin")
    if found is None or not Path("/usr/lib/dovecot/lmtp").exists():
        missing("Dovecot", "apt-get install dovecot-imapd dovecot-lmtpd")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    if not said.startswith("2.3."):
        missing("Dovecot 2.3", f"this is {said.strip()}, which wants another configuration")
    return found


def _ourselves() -> tuple[str, str]:
    import grp
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in listed.read_text().split()] if listed.exists() else []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
