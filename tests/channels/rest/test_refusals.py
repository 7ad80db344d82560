"""Refused decisions of the API are in the audit with the person and the token."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from builders import CLEO, paused
from channels.granting import asked
from channels.rest.conftest import Office
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What

OTHER_CALL = "sha256:" + "0" * 64


async def refusals(office: Office, approval: Approval) -> Sequence[Event]:
    """Return the refused answers in an approval's audit."""
    history = await office.decider.ledger.history(approval.id)
    return [one for one in history if one.what is What.REFUSED_ANSWER]


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("approve", {"digest": OTHER_CALL}, 409),
        ("approve", {"values": {"amount": "lots"}}, 422),
        ("grant", {"length": "9h"}, 409),
        ("grant", {"digest": OTHER_CALL, "length": "1h"}, 409),
        ("claim", {}, 409),
        ("reassign", {"to": "riley", "reason": "they asked"}, 403),
    ],
)
async def test_a_refused_action_of_an_approver_is_audited(
    office: Office, mara: httpx.AsyncClient, verb: str, body: dict[str, object], status: int
) -> None:
    """Each refusal appears once with person and token, and the approval does not change."""
    approval = await asked(office.decider.ledger, "first")
    if verb == "claim":
        cleo = await office.holder(person="cleo")
        approval = (await paused(office.decider.ledger))[1][0]
        assert (await cleo.post(f"approvals/{approval.id}/claim", json={})).status_code == 200
    if verb in {"approve", "grant"}:
        body = {"digest": approval.digest, **body}
    before = await office.decider.ledger.approval(approval.id)
    answer = await mara.post(f"approvals/{approval.id}/{verb}", json=body)
    assert answer.status_code == status, answer.text
    (event,) = await refusals(office, approval)
    assert (event.by, event.more["channel"]) == ("mara", "api")
    assert event.more["token"]
    assert event.why
    assert await office.decider.ledger.approval(approval.id) == before


async def test_an_outsider_gets_404_and_the_refusal_is_audited(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """A person who is not asked gets 404, and the audit has the refusal."""
    _, (approval,) = await paused(office.decider.ledger, asked=(CLEO,))
    together = {"approvals": [{"id": approval.id, "digest": approval.digest}]}
    for path, body in (
        (f"approvals/{approval.id}/approve", {"digest": approval.digest}),
        (f"approvals/{approval.id}/reject", {}),
        (f"approvals/{approval.id}/grant", {"digest": approval.digest, "length": "1h"}),
        ("approvals/together", together),
    ):
        answer = await mara.post(path, json=body)
        problem = answer.json() if answer.status_code == 404 else answer.json()[0]["problem"]
        assert problem["type"] == "urn:signoff:problem:not-found"
    found = await refusals(office, approval)
    assert [(one.by, one.why) for one in found] == [("mara", "mara may not see this approval.")] * 4


async def test_a_late_decision_of_a_system_token_is_audited(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """A token without a person is named itself."""
    _, (approval,) = await paused(office.decider.ledger)
    assert (await mara.post(f"approvals/{approval.id}/reject", json={})).status_code == 200
    system = await office.holder(users=("*",))
    answer = await system.post(f"approvals/{approval.id}/withdraw", json={"reason": "it is over"})
    assert answer.status_code == 409, answer.text
    (event,) = await refusals(office, approval)
    assert str(event.more["token"]) in event.by


async def test_reads_and_unknown_ids_are_not_audited(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """Only an attempt to change an existing approval is audited as a refusal."""
    _, (approval,) = await paused(office.decider.ledger, asked=(CLEO,))
    assert (await mara.get(f"approvals/{approval.id}")).status_code == 404
    assert (await mara.post("approvals/ap_nothing/reject", json={})).status_code == 404
    assert await refusals(office, approval) == []
