"""Values and ledger states that many tests start with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import JsonValue

from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import RouteApproval
from signoff.core.access.scopes import Scope
from signoff.core.approvals.approval import Approval, Asked, Kind, Origin, Shown, ToolCall
from signoff.core.approvals.events import Event
from signoff.core.approvals.parts import Program
from signoff.core.approvals.run import Run
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import OnTimeout, Terms

OF_PEOPLE = frozenset({*Scope} - {Scope.ADMIN, Scope.REQUESTS_SUBMIT})
"""The scopes of a person's token; an instance's credential has a scope of its own."""
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

MARA = Person(
    id="mara", name="Mara Lind", email="mara@example.com", aliases=("m.lind@example.net",)
)
CLEO = Person(id="cleo", name="Cleo Park", email="cleo@example.com")
RILEY = Person(
    id="riley", name="Riley Voss", email="riley@example.com", aliases=("r.voss@example.net",)
)


T = TypeVar("T")


def present(value: T | None) -> T:
    """Return a value that must not be None: a decision, a deadline, a part of a mail."""
    assert value is not None
    return value


def proof_of(event: Event) -> dict[str, JsonValue]:
    """Return how an event says that a mail's author was verified."""
    proof = event.more["proof"]
    assert isinstance(proof, dict)
    return proof


Snapshot = Callable[[], Awaitable[dict[bytes, bytes]]]
"""The type of the fixture `snapshot`: a function that reads all keys of the ledger."""


def people() -> Directory:
    """Return Mara and Cleo, who approve, and Riley, the requester."""
    return Directory([MARA, CLEO, RILEY])


def make_call(tool: str = "reimburse", call_id: str = "fc-1", /, **args: JsonValue) -> ToolCall:
    """Return a pending call; without arguments, a reimbursement of 2500."""
    return ToolCall(id=call_id, name=tool, args=args or {"amount": 2500, "purpose": "conference"})


def make_origin(**parts: str) -> Origin:
    """Return the origin of a call: a run of Riley's, unless a part says otherwise."""
    usual = {
        "run": "run_1",
        "app": "finance",
        "agent": "reimbursement_agent",
        "user": "riley",
        "session": "s_1",
        "invocation": "e-1",
        "confirmation": "adk-1",
    }
    return Origin(**(usual | parts))


def make_approval(
    *,
    origin: Origin | None = None,
    call: ToolCall | None = None,
    template: JsonValue = None,
    hint: str = "",
    now: datetime = NOON,
) -> Approval:
    """Return an approval before it is routed."""
    approval, _ = Approval.open(
        origin or make_origin(), call or make_call(), hint=hint, template=template, now=now
    )
    return approval


def ask(
    approval: Approval,
    *people: Person,
    now: datetime = NOON,
    within: timedelta = timedelta(hours=4),
    on_timeout: OnTimeout = OnTimeout.REJECT,
    second_step: bool = False,
) -> Approval:
    """Return the approval after these people were asked by email; by default Mara and Cleo.

    Their cards show all of the call.
    """
    asked = people or (MARA, CLEO)
    terms = Terms(
        policy="expenses",
        ask=tuple(person.id for person in asked),
        within=within,
        on_timeout=on_timeout,
        second_step=second_step,
    )
    entries = tuple(
        Asked(person=person.id, channel="email", address=person.email, shown=Shown.COMPLETE)
        for person in asked
    )
    return approval.ask(terms, entries, now=now)[0]


def asked_approval(**parts: Any) -> Approval:
    """Return an approval that asks Mara and Cleo; `parts` go to `make_approval`."""
    return ask(make_approval(**parts))


def program_for(approval: Approval, *, valid_for: timedelta) -> Program:
    """Return the program that asks for an approval, with an hour to answer."""
    return Program(
        instance="",
        request="6f2f4d0e-58a2-5ef0-9d0c-9f3a27a7a3f1",
        tool="reimburse",
        arguments="{}",
        timeout="1h",
        until=approval.opened_at + timedelta(hours=1),
        valid_for=valid_for,
    )


async def opened(
    decider: Decider,
    call: ToolCall,
    *,
    user: str = "riley",
    hint: str = "",
    template: JsonValue = None,
    kind: Kind = Kind.CONFIRMATION,
) -> Approval:
    """Bring a new run to a pause on one call, and send its approval to the router."""
    ledger = decider.ledger
    run = await decider.submit("finance", "please", user=user)
    now = await ledger.now()
    origin = make_origin(run=run.id, session=run.session, user=user)
    approval, events = Approval.open(origin, call, hint=hint, template=template, now=now, kind=kind)
    claim = await ledger.claim("run.finance", limit=1)
    submitted = await ledger.run(run.id)
    change = Change().put(approval, was=None).note(events).ack(claim.items[0])
    change.put(submitted.paused([approval.id]), was=submitted)
    await ledger.commit(change.send(RouteApproval(approval=approval.id)))
    return await ledger.approval(approval.id)


def waiting(approval: Approval) -> Change:
    """Return the change that puts an approval and its paused run into the ledger, and routes it."""
    origin = approval.origin
    run = Run(
        id=origin.run,
        app=origin.app or "app",
        user=origin.user or "user",
        session=origin.session,
        message="go",
        submitted_at=approval.opened_at,
    ).paused([approval.id])
    change = Change().put(run, was=None).put(approval, was=None)
    return change.send(RouteApproval(approval=approval.id))


async def paused(
    ledger: Ledger,
    *,
    siblings: int = 1,
    template: JsonValue = None,
    asked: Iterable[Person] = (MARA, CLEO),
    within: timedelta = timedelta(hours=4),
    on_timeout: OnTimeout = OnTimeout.REJECT,
    session: str = "",
    run: Run | None = None,
) -> tuple[Run, list[Approval]]:
    """Bring a run of Riley's to its first pause, and route its approvals.

    Args:
        ledger: The ledger.
        siblings: How many calls the run waits for.
        template: The template of their payloads.
        asked: Who is asked.
        within: How long they have.
        on_timeout: What happens after that.
        session: The session of the run; a new one by default.
        run: A run that is submitted already.

    Returns:
        The run and its approvals, as the ledger has them.
    """
    run = run or await Decider(ledger, people()).submit(
        "finance", "Reimburse me $2500", user="riley", session=session
    )
    now = await ledger.now()
    change = Change()
    opened = []
    for number in range(siblings):
        approval, events = Approval.open(
            make_origin(run=run.id, session=run.session, confirmation=f"adk-{number}"),
            make_call("reimburse", f"fc-{number}"),
            hint="",
            template=template,
            now=now,
        )
        change.note(events)
        approval = ask(approval, *asked, now=now, within=within, on_timeout=on_timeout)
        change.put(approval, was=None)
        opened.append(approval.id)
    claim = await ledger.claim("run.finance", limit=1)
    submitted = await ledger.run(run.id)
    change.put(submitted.paused(opened), was=submitted).ack(claim.items[0])
    await ledger.commit(change)
    return await ledger.run(run.id), await ledger.approvals(opened)
