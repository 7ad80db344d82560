"""Turns the meaning of a reply into a move."""

from __future__ import annotations

from signoff.core.approvals import moves
from signoff.core.base.errors import MoveRefused
from signoff.core.base.text import brief
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.moves import GiveGrant
from signoff.core.replies import reply as replies
from signoff.core.replies.reply import Reply


def move_of(reply: Reply, person: Person, directory: Directory) -> moves.Move | None:  # noqa: PLR0911 -- one for each kind
    """Return the move that a person's reply asks for; None if it asks for none.

    Raises:
        MoveRefused: It does not name one person; see `find_person`.
    """
    match reply:
        case replies.Approve(grant=None):
            return moves.Approve(values=reply.values, reason=reply.note)
        case replies.Approve(grant=replies.Grant() as grant):
            return GiveGrant(span=grant.span, uses=grant.uses, reason=reply.note)
        case replies.Reject():
            return moves.Reject(reason=reply.reason, values=reply.values)
        case replies.Claim():
            return moves.Claim(length=reply.length)
        case replies.Release():
            return moves.Release(reason=reply.reason)
        case replies.Reassign():
            to = find_person(directory, reply.to)
            return moves.Reassign(of=person, to=to, reason=reply.reason)
        case replies.Ask():
            return moves.AskBack(text=reply.text)
        case replies.Comment():
            return moves.Comment(text=reply.text)
        case replies.Extend():
            return moves.Extend(by=reply.length, reason=reply.reason)
        case replies.Remind():
            return moves.Remind()
        case replies.Withdraw():
            return moves.Withdraw(reason=reply.reason)
    return None


def find_person(directory: Directory, name: str) -> Person:
    """Return the person with this id, address, full name or first name.

    Raises:
        MoveRefused: There is no such person, or there are several.
    """
    if not name.strip():
        raise MoveRefused("No person is named; write a name or an address.")
    found = directory.find(name)
    if found is not None:
        return found
    wanted = " ".join(name.casefold().split())
    for found_by_name in (
        [one for one in directory if one.name.casefold() == wanted],
        [one for one in directory if one.name.casefold().split()[:1] == [wanted]],
    ):
        if len(found_by_name) == 1:
            return found_by_name[0]
        if found_by_name:
            ids = ", ".join(one.id for one in found_by_name)
            raise MoveRefused(f"{brief(name)} could be one of {ids}; write which.")
    raise MoveRefused(f"There is nobody called {brief(name)}; write their address.")
