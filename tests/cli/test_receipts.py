"""`signoff receipt`: shown, verified here and elsewhere, and with rotated keys."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import jwt
import pytest

from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger, waiting
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.cli.composition.receipts import private_file, private_key, public_file, public_keys
from signoff.cli.config.settings import load_settings
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import ConfigError

__all__ = ["on_ledger", "waiting"]

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "receipts.md"


@pytest.fixture
def approved(invoke: Invoke, waiting: Approval) -> Approval:
    """Return an approval that Mara has given on the command line."""
    assert invoke("approvals", "approve", waiting.id, "--as", "mara").exit_code == 0
    return waiting


def test_a_receipt_is_shown_and_verified(
    invoke: Invoke, approved: Approval, on_ledger: OnLedger
) -> None:
    """Signature, approval and audit entry match; otherwise the output says which one does not."""
    shown = json.loads(invoke("receipt", "show", approved.id).stdout)
    assert (shown["header"]["alg"], shown["payload"]["by"]) == ("EdDSA", ["mara"])
    done = invoke("receipt", "verify", approved.id)
    assert f"{approved.id}: approved by Mara Lind. The receipt is valid" in done.stdout.replace(
        "mara", "Mara Lind"
    )

    async def change(ledger: Ledger) -> None:
        was = await ledger.approval(approved.id)
        assert was.decision is not None
        forged = was.decision.model_copy(update={"by": "cleo"})
        after = was.model_copy(update={"decision": forged})
        await ledger.commit(Change().put(after, was=was))

    on_ledger(change)
    refused = invoke("receipt", "verify", approved.id)
    assert (refused.exit_code, "its by is not what was signed" in refused.stderr) == (1, True)


def test_pending_request_has_no_receipt(invoke: Invoke, waiting: Approval) -> None:
    """The message says so."""
    refused = invoke("receipt", "show", waiting.id)
    assert (refused.exit_code, "without a receipt" in refused.stderr) == (1, True)


def test_the_program_of_the_documentation_verifies_a_receipt(
    invoke: Invoke, approved: Approval, tmp_path: Path
) -> None:
    """It needs the public keys, the receipt and a JOSE library; another library agrees."""
    keys = invoke("receipt", "keys").stdout
    receipt = invoke("receipt", "show", approved.id, "--jws").stdout.strip()
    (tmp_path / "keys.json").write_text(keys)
    (tmp_path / "receipt.jws").write_text(receipt)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    line = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("approved by mara at 20")
    (key,) = json.loads(keys)["keys"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = json.loads(jwt.PyJWS().decode(receipt, jwt.PyJWK(key), algorithms=["EdDSA"]))
    assert said["sub"] == approved.id
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.PyJWS().decode(f"{receipt[:-4]}AAAA", jwt.PyJWK(key), algorithms=["EdDSA"])


def test_keys_are_created_once_and_only_for_this_user(
    invoke: Invoke, approved: Approval, settings_file: Path
) -> None:
    """The private key is in a folder that workers do not need; a rotation keeps the old key."""
    settings = load_settings(settings_file)
    private, public = private_file(settings), public_file(settings)
    assert private.parent != public.parent
    assert (private.stat().st_mode & 0o077, private.parent.stat().st_mode & 0o077) == (0, 0)
    assert '"d"' in private.read_text()
    assert '"d"' not in public.read_text()
    before = json.loads(public.read_text())["keys"]
    assert "Restart gateway and channels" in invoke("receipt", "rotate").stdout
    assert json.loads(public.read_text())["keys"][:1] == before
    assert len(json.loads(public.read_text())["keys"]) == 2
    assert "is valid" in invoke("receipt", "verify", approved.id).stdout


def test_keys_can_come_from_the_settings(
    invoke: Invoke, waiting: Approval, settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output of `new-key` is accepted; an invalid key gets a plain error."""
    for line in invoke("receipt", "new-key").stdout.splitlines():
        name, _, value = line.partition("=")
        monkeypatch.setenv(name, value.strip("'"))
    assert invoke("approvals", "approve", waiting.id, "--as", "mara").exit_code == 0
    assert "is valid" in invoke("receipt", "verify", waiting.id).stdout
    assert not private_file(load_settings(settings_file)).exists()
    monkeypatch.setenv("SIGNOFF_RECEIPTS__PRIVATE_KEY", "secret")
    refused = invoke("approvals", "reject", waiting.id, "--as", "mara")
    assert refused.exit_code == 1


@pytest.mark.parametrize("text", [b"\xff\xfe", b"[]", b'{"keys": [{}]}'])
def test_unreadable_public_keys_are_an_error_of_the_settings(
    approved: Approval, settings_file: Path, text: bytes
) -> None:
    """Whatever the file contains, its name is in the message."""
    settings = load_settings(settings_file)
    file = public_file(settings)
    file.write_bytes(text)
    with pytest.raises(ConfigError, match="it cannot be read"):
        public_keys(settings)
    file.unlink()
    assert public_keys(settings) == []


@pytest.mark.parametrize("text", ["abc", "[]"])
def test_a_private_key_that_is_not_json_is_explained(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The message names the setting, and how to make a key."""
    monkeypatch.setenv("SIGNOFF_RECEIPTS__PRIVATE_KEY", text)
    with pytest.raises(ConfigError) as caught:
        private_key(load_settings(settings_file))
    told = "it is not a JSON object. Make one with `signoff receipt new-key`."
    assert str(caught.value) == f"receipts.private_key: {told}"


def test_a_damaged_private_key_is_an_error_of_the_settings(settings_file: Path) -> None:
    """A file that holds something else, such as zeros after a crash, is named."""
    settings = load_settings(settings_file)
    private_key(settings)
    private_file(settings).write_bytes(b"\xff\x00")
    with pytest.raises(ConfigError, match="signoff receipt new-key") as caught:
        private_key(settings)
    assert str(private_file(settings)) in str(caught.value)


def test_a_full_disk_names_the_file_of_the_key(settings_file: Path) -> None:
    """The key that signs decisions is made with the first decision, when the disk may be full."""
    settings, (soft, hard) = load_settings(settings_file), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(ConfigError) as caught:
            private_key(settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"cannot be kept in {private_file(settings)}: File too large" in str(caught.value)
    assert private_key(settings).is_private


def test_a_worker_never_gets_the_private_key(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings do not have it, wherever it was set."""
    monkeypatch.setenv("SIGNOFF_RECEIPTS__PRIVATE_KEY", "secret")
    from signoff.cli.composition.credentials import own_environment

    assert "SIGNOFF_RECEIPTS__PRIVATE_KEY" not in own_environment(
        "worker", {"SIGNOFF_RECEIPTS__PRIVATE_KEY": "secret"}
    )
    kept = own_environment("gateway", {"SIGNOFF_RECEIPTS__PRIVATE_KEY": "secret"})
    assert "SIGNOFF_RECEIPTS__PRIVATE_KEY" in kept
    assert settings_file.exists()
