"""Queues the messages besides cards: about moves, and about uses of grants."""

from __future__ import annotations

from datetime import datetime, timedelta

from signoff.broker.ledger.change import Change
from signoff.broker.work import AskRequester, SendNotice, TellMove
from signoff.channels.pipeline.cards import remind, time_left
from signoff.channels.pipeline.reply_tokens import Holder, Role, issue_token
from signoff.channels.words.messages import RenderedMessage, called, quoted, say
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import CommentKind
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import Grant
from signoff.core.routing.targets import EMAIL, SLACK


def tell(
    change: Change,
    holder: Holder,
    words: RenderedMessage,
    *,
    cause: str,
    token: str = "",
    offers: str = "",
    reply_to: str = "",
    address: str = "",
) -> None:
    """Add a message to a person to a change.

    Args:
        change: The change.
        holder: The person, the request, and the channel.
        words: The message.
        cause: Identifies what the message is about; each cause is told once.
        token: The token for an answer, "" if none is expected.
        offers: See `Message.offers`.
        reply_to: The channel's id of the person's own message, "" if there was none.
        address: The address, in the channel's format; "" for that of the card.
    """
    kind = AskRequester if holder.role is Role.REQUESTER else SendNotice
    change.send(
        kind(
            channel=holder.channel,
            approval=holder.approval,
            person=holder.person,
            cause=cause,
            headline=words.headline,
            text=words.text,
            example=words.example,
            token=token,
            offers=offers,
            reply_to=reply_to,
            address=address,
        )
    )


def tell_use(change: Change, approval: Approval, grant: Grant, directory: Directory) -> None:
    """Tell the giver of a grant about a use of it, through the channel of their card.

    Args:
        change: The change that the message is added to.
        approval: The approval with which the grant was given.
        grant: The grant after the use.
        directory: The people.
    """
    holder = Holder(approval.id, grant.by, channel_of(approval, grant.by))
    name = "grant_used" if grant.left else "grant_used_up"
    words = say(name, approval, directory, grant.by, grant=grant)
    tell(
        change,
        holder,
        words,
        cause=f"{'used' if grant.left else 'used_up'}:{grant.id}",
        token=issue_token(change, holder, within=grant.expires_at - grant.at) if grant.left else "",
        offers=words.example,
    )


def tell_move(
    change: Change, work: TellMove, approval: Approval, directory: Directory, *, now: datetime
) -> Change:
    """Add to a change the messages to everybody whom a move concerns, and return it."""
    if work.move is What.GLASS_BROKEN:
        return _glass_broken(change, work, approval, directory)
    if approval.state is not State.PENDING:
        return change
    by, text = called(work.by, directory), quoted(work.reason)
    within = time_left(approval, now)
    match work.move:
        case What.ASKED_BACK:
            if (requester := directory.find(approval.origin.user)) is not None:
                for channel in _channels_of_requester(approval, requester):
                    holder = Holder(approval.id, requester.id, channel, Role.REQUESTER)
                    words = say(
                        "question",
                        approval,
                        directory,
                        requester.id,
                        by=by,
                        words=text,
                        pressed=channel == SLACK,
                    )
                    _ask(change, work, holder, words, within=within)
        case What.ANSWERED_BACK:
            if asker := _asker(approval):
                words = say("answered", approval, directory, asker, by=by, words=text)
                holder = Holder(approval.id, asker, channel_of(approval, asker))
                _ask(change, work, holder, words, within=within)
        case What.REASSIGNED:
            _reassigned(change, work, approval, directory, within=within)
        case What.REMINDED:
            remind(change, approval, directory, nth=f"now-{work.version}", now=now)
    return change


def _glass_broken(
    change: Change, work: TellMove, approval: Approval, directory: Directory
) -> Change:
    """Tell all approvers and informed people that somebody decided alone."""
    reason, by = quoted(work.reason), called(work.by, directory)
    words = say("glass_broken", approval, directory, by=by, reason=reason)
    people = [
        *(one.key for one in approval.asked),
        *(one.stands_for for one in approval.seats),
        *(one.person for one in approval.seats),
        *approval.informed,
    ]
    for person in dict.fromkeys(people):
        if person != work.by:
            places = (one.channel for one in approval.asked if one.key == person)
            channel = next(places, channel_of(approval, person))
            tell(change, Holder(approval.id, person, channel), words, cause=f"{work.id}:{person}")
    return change


def _reassigned(
    change: Change, work: TellMove, approval: Approval, directory: Directory, *, within: timedelta
) -> None:
    """Tell the previous approver, unless they did it, and a new approver who gets no card."""
    of, to = str(work.more.get("of", "")), str(work.more.get("to", ""))
    reason = quoted(work.reason)
    if work.by != of:
        words = say("handed_on", approval, directory, of, to=called(to, directory), reason=reason)
        holder = Holder(approval.id, of, channel_of(approval, of))
        tell(change, holder, words, cause=f"{work.id}:{of}")
    person = directory.get(to)
    here = (one for one in approval.asked if one.level_key == approval.level_key)
    if person is not None and any(not one.person for one in here):
        # The card is in a Slack channel, so they get no card of their own.
        words = say("yours_now", approval, directory, to, of=called(of, directory), reason=reason)
        channel = SLACK if person.slack else EMAIL
        holder = Holder(approval.id, to, channel, level_key=approval.level_key)
        _ask(change, work, holder, words, within=within)


def _ask(
    change: Change, work: TellMove, holder: Holder, words: RenderedMessage, *, within: timedelta
) -> None:
    """Add a message about a move to a person who may answer it."""
    token = issue_token(change, holder, within=within)
    tell(change, holder, words, cause=f"{work.id}:{holder.person}", token=token)


def _channels_of_requester(approval: Approval, requester: Person) -> tuple[str, ...]:
    """Return the channels for a question: mail, and Slack too if the approval is asked there.

    The mail is always sent, in case Slack cannot deliver.
    """
    there = any(one.channel == SLACK for one in approval.asked)
    return (EMAIL, SLACK) if requester.slack and there else (EMAIL,)


def _asker(approval: Approval) -> str:
    """Return the id of the person who asked the requester last, "" if nobody did."""
    asked = (one.by for one in reversed(approval.comments) if one.sort is CommentKind.QUESTION)
    return next(asked, "")


def channel_of(approval: Approval, person: str) -> str:
    """Return the channel for messages to a person: that of their card, or mail."""
    mine = (one.channel for one in approval.asked if one.person == person and not one.problem)
    places = (one.channel for one in approval.asked if not one.person)
    return next(mine, next(places, EMAIL))
