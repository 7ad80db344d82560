"""Hidden values are hidden from a call's first moment, and a client may send them back."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from builders import NOON, make_approval, make_call, make_origin
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.core.base.errors import PayloadError
from signoff.core.base.hiding import HIDDEN
from signoff.core.policies.policy import Terms
from signoff.worker import turn_results
from signoff.worker.adk_api.stated import values_of
from signoff.worker.port import Pause, TurnResult

IBAN = "DE89370400440532013000"
ARGS: dict[str, JsonValue] = {"amount": 1, "iban": IBAN}


def test_unrouted_call_hides_what_any_policy_hides() -> None:
    """The worker does not know its policy yet, so it hides what any policy hides."""
    run = Run(
        id="run_1",
        app="finance",
        user="riley",
        session="s",
        message="m",
        submitted_at=NOON,
        trace="t",
    )
    pause = Pause(origin=make_origin(), call=make_call("pay", **ARGS))
    change = turn_results.turn_ended(
        run, TurnResult(pauses=(pause,)), [], (), {}, now=NOON, hide=("iban",)
    )
    (opened,) = (one for one in change.writes if '"iban"' in str(one))
    approval = Approval.model_validate_json(str(opened["data"]))
    assert approval.hides == ("iban",)
    assert approval.call.args == ARGS
    again, _ = approval.open(
        approval.origin, approval.call, hint="", template=None, now=NOON, hide=approval.hides
    )
    assert again.hides == ("iban",)


def asked(template: JsonValue = None) -> Approval:
    """Return a payment whose account is hidden."""
    terms = Terms(policy="p", ask=("mara",), hide=("iban",))
    return make_approval(call=make_call("pay", **ARGS), template=template).ask(terms, (), now=NOON)[
        0
    ]


@pytest.mark.parametrize("iban", [IBAN, HIDDEN])
def test_client_may_send_back_the_displayed_arguments(iban: str) -> None:
    """ADK's page sends all arguments back; hidden ones change nothing."""
    assert values_of(asked(), {"amount": 2, "iban": iban}) == {"amount": 2}
    template: JsonValue = {"iban": IBAN, "days": 0}
    assert values_of(asked(template), {"iban": iban, "days": 0}) is None
    assert values_of(asked(template), {"iban": iban, "days": 2}) == {"days": 2}


def test_payload_errors_name_no_hidden_value() -> None:
    """The example in an error only has visible values."""
    with pytest.raises(PayloadError) as caught:
        values_of(asked({"iban": IBAN, "days": 1}), {"gone": 1})
    assert IBAN not in f"{caught.value} {caught.value.example}"
