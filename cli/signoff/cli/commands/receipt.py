"""`signoff receipt`: the signed statements about decisions, and the keys that sign them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import settings_of, with_decisions, write_json
from signoff.cli.commands.options import ApprovalId
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.core.approvals.approval import Approval

app = typer.Typer(no_args_is_help=True, help="The receipts of decisions, and their keys.")


@app.command()
def show(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    as_jws: Annotated[
        bool, typer.Option("--jws", help="Print the receipt itself, for other programs.")
    ] = False,
) -> None:
    """Show what the receipt of a decision states. It is not verified; see `verify`."""
    receipt = _receipt(with_decisions(ctx, lambda decisions: _approval(decisions, approval_id)))
    if as_jws:
        say(receipt)
        return
    from signoff.broker.ed25519 import contents  # noqa: PLC0415 -- help must not wait for it

    header, payload = contents(receipt)
    write_json({"header": header, "payload": json.loads(payload)})


@app.command()
def verify(ctx: typer.Context, approval_id: ApprovalId) -> None:
    """Verify a receipt: its signature, the approval that it is about, and its audit entry."""
    settings = settings_of(ctx)

    async def work(decisions: Decisions) -> tuple[Approval, str]:
        from signoff.broker.ledger import audit  # noqa: PLC0415
        from signoff.cli.composition.receipts import open_receipts  # noqa: PLC0415
        from signoff.core.base.errors import ReceiptRefused  # noqa: PLC0415

        approval = await _approval(decisions, approval_id)
        receipt, receipts = _receipt(approval), open_receipts(settings, signs=False)
        now = await decisions.ledger.now()
        if why := receipts.why_refused(approval, now):
            raise ReceiptRefused(f"Approval {approval.id}: {why}.")
        entry = str(receipts.read(receipt)["entry"])
        run = approval.origin.run
        async for place, text, _ in audit.about(decisions.ledger.store, run):
            if hashlib.sha256(text.encode()).hexdigest() == entry:
                return approval, place
        raise ReceiptRefused(
            f"The receipt of approval {approval.id} names an entry that is not in the audit log."
        )

    approval, place = with_decisions(ctx, work)
    say(f"{approval.id}: {approval.outcome()}. The receipt is valid; its audit entry is {place}.")


@app.command()
def keys(ctx: typer.Context) -> None:
    """Print the public keys as a set in JSON (JWKS), for workers and other verifiers."""
    from signoff.broker.receipts import keys_text  # noqa: PLC0415
    from signoff.cli.composition.receipts import public_keys  # noqa: PLC0415

    say(keys_text(public_keys(settings_of(ctx))))


@app.command("new-key")
def new_key(ctx: typer.Context) -> None:
    """Print a new private key, and the public keys with it; nothing is stored.

    Give the public keys to the workers first, then the private key to gateway and channels.
    """
    from signoff.broker.ed25519 import Key  # noqa: PLC0415
    from signoff.broker.receipts import key_text, keys_text  # noqa: PLC0415
    from signoff.cli.composition.receipts import public_keys  # noqa: PLC0415

    key = Key.generate()
    say(f"SIGNOFF_RECEIPTS__PRIVATE_KEY='{key_text(key, private=True)}'")
    say(f"SIGNOFF_RECEIPTS__PUBLIC_KEYS='{keys_text([*public_keys(settings_of(ctx)), key])}'")


@app.command()
def rotate(ctx: typer.Context) -> None:
    """Make a new key in `.signoff/receipts`. Earlier receipts stay valid.

    Restart gateway and channels to sign with it. Running workers find the public key themselves.
    """
    from signoff.cli.composition import receipts  # noqa: PLC0415

    key = receipts.rotate(settings_of(ctx))
    say(f"The new key is {key.kid}. Restart gateway and channels.")


async def _approval(decisions: Decisions, approval_id: str) -> Approval:
    return await decisions.ledger.approval(approval_id)


def _receipt(approval: Approval) -> str:
    from signoff.core.base.errors import ReceiptRefused  # noqa: PLC0415

    if not approval.receipt:
        raise ReceiptRefused(f"Approval {approval.id} is {approval.outcome()}, without a receipt.")
    return approval.receipt
