"""The context of an approval that is needed to read a reply to it."""

from __future__ import annotations

from functools import lru_cache

from pydantic import JsonValue

from signoff.core.approvals.answers import template_of
from signoff.core.approvals.approval import Approval, Kind
from signoff.core.approvals.hidden import call_without_hidden
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.amounts import Amounts
from signoff.core.replies.text import Names, ReplyContext


def context_of(approval: Approval, person: Person, directory: Directory) -> ReplyContext:
    """Return the context for reading a person's reply to an approval.

    Without a payload template, a reply may name the arguments of the call. Other values for them
    are a proposal; `answers.meaning_of_yes` distinguishes it from an approval.
    """
    origin, call = approval.origin, approval.call
    template = template_of(approval.kind, call, approval.template)
    proposes = template is None and approval.kind is not Kind.INPUT and bool(call.args)
    fields = dict(call.args) if proposes else template
    if isinstance(fields, dict):
        # People cannot change hidden fields, and examples must not name them.
        fields = {name: one for name, one in fields.items() if name not in approval.fixed}
    requester = directory.find(origin.user)
    return ReplyContext(
        fields=fields,
        proposes=proposes,
        currencies=_currencies(approval, fields),
        called=(call.name, origin.app),
        people=(_names(directory), Names((origin.app, requester.shown if requester else ""))),
        author=Names((person.name, person.id, person.email.partition("@")[0])),
    )


def _currencies(approval: Approval, fields: JsonValue) -> dict[str, str]:
    """Return the currencies of the fields that are amounts of money."""
    if approval.terms is None or not approval.terms.money or not isinstance(fields, dict):
        return {}
    seen = call_without_hidden(approval.call, approval.hides)
    amounts = Amounts(approval.terms.money, seen.args)
    return {name: currency for name in fields if (currency := amounts.currency(name))}


@lru_cache(maxsize=4)
def _names(directory: Directory) -> Names:
    return Names(person.name for person in directory)
