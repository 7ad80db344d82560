"""What the holder of an API token may do, and for whom.

A token stands either for one person or for a system. A person's token sees what that person is
asked about or has asked for, submits in that person's name and decides as that person. A system's
token submits for the ADK users that it names, sees what they have asked for, and decides nothing:
nobody can ask under one name and answer under another with the same token.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Self

from pydantic import Field, model_validator

from signoff.core.access.scopes import Scope
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.core.base.model import Value
from signoff.core.directory.people import Directory
from signoff.core.grants.grant import Grant

__all__ = ["ANYBODY", "BY_ADMIN", "Access", "Scope"]

ANYBODY: Final = "*"
"""In `users`: every user."""


BY_ADMIN: Final = frozenset(
    {
        Scope.ADMIN,
        Scope.RUNS_READ,
        Scope.APPROVALS_READ,
        Scope.APPROVALS_WITHDRAW,
        Scope.AUDIT_READ,
    }
)
"""What an administrator's token is good for besides."""


class Access(Value):
    """An API token, but for its secret.

    Attributes:
        id: What it is called; it stands in the token itself and is no secret.
        name: What it is for, in words.
        person: The id of the person as whom its holder acts, "" for a system.
        users: For a system: the ADK user ids for whom it submits; `ANYBODY` for all.
        apps: The agents that it may use and see; all where none is named.
        instance: The id of the instance whose credential it is, "" for every other token.
        scopes: What it is good for.
        sha256: Of its secret, in hexadecimal.
        created_at: When it was made (UTC).
        created_by: Who made it.
        expires_at: From when on it is worth nothing (UTC); None where it does not expire.
    """

    id: str
    name: str = Field("", max_length=64)
    person: str = ""
    users: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    instance: str = ""
    scopes: frozenset[Scope] = Field(min_length=1)
    sha256: str
    created_at: datetime
    created_by: str = ""
    expires_at: datetime | None = None

    @model_validator(mode="after")
    def _whose(self) -> Self:
        if self.person and self.users:
            raise ValueError(
                "a token belongs to a person or submits for users, not both: its holder could ask "
                "and answer. Make two"
            )
        if Scope.APPROVALS_DECIDE in self.scopes and not self.person:
            raise ValueError(f"only a person decides: {Scope.APPROVALS_DECIDE} needs a person")
        of_instance = Scope.REQUESTS_SUBMIT in self.scopes
        if bool(self.instance) != of_instance or (of_instance and len(self.scopes) > 1):
            raise ValueError(
                f"{Scope.REQUESTS_SUBMIT} is for the credential of an instance, which is good for "
                "nothing else: `signoff aap instance add` makes it"
            )
        for one in (Scope.RUNS_SUBMIT, Scope.INSTANCES_MANAGE):
            if one in self.scopes and not (self.person or self.users):
                raise ValueError(f"{one} needs a person, or the users it submits for")
        return self

    @property
    def shown(self) -> str:
        """What it is called in the audit and in the log."""
        return self.name or f"token {self.id}"

    @property
    def is_admin(self) -> bool:
        """Whether it sees everything."""
        return Scope.ADMIN in self.scopes

    def allows(self, scope: Scope) -> bool:
        """Say whether it is good for something."""
        return scope in self.scopes or (self.is_admin and scope in BY_ADMIN)

    def has_expired(self, now: datetime) -> bool:
        """Say whether it is worth nothing any more."""
        return self.expires_at is not None and now >= self.expires_at

    def may_submit(self, app: str, user: str) -> bool:
        """Say whether it submits to an agent for a user."""
        mine = user == self.person if self.person else bool({ANYBODY, user} & {*self.users})
        return mine and self.may_use(app)

    def may_use(self, app: str) -> bool:
        """Say whether it may know of an agent."""
        return not self.apps or app in self.apps

    def has_asked(self, user: str, directory: Directory) -> bool:
        """Say whether an ADK user is the person, or one of the users, that it stands for."""
        if self.person:
            return directory.same(self.person, user)
        return bool({ANYBODY, user} & {*self.users})

    def sees_all(self, directory: Directory) -> bool:
        """Say whether it sees what concerns others: an administrator's, or that of a role's."""
        person = directory.get(self.person)
        return self.is_admin or (person is not None and person.sees_all)

    def sees_run(self, run: Run, directory: Directory) -> bool:
        """Say whether its holder may know of a run."""
        concerned = self.sees_all(directory) or self.has_asked(run.user, directory)
        return self.is_admin or (concerned and self.may_use(run.app))

    def sees(self, approval: Approval, directory: Directory) -> bool:
        """Say whether its holder may know of an approval.

        That is who is or was asked, who is informed, who has asked, the others of the queues it was
        put into, and operators and auditors.
        """
        if self.is_admin:
            return True
        person = directory.get(self.person)
        concerned = (
            self.sees_all(directory)
            or self.has_asked(approval.origin.user, directory)
            or (person is not None and approval.concerns(person, directory))
        )
        return concerned and self.may_use(approval.origin.app)

    def sees_grant(self, grant: Grant, directory: Directory) -> bool:
        """Say whether its holder may know of a grant: who has given it, operators and auditors."""
        concerned = self.sees_all(directory) or (bool(self.person) and grant.by == self.person)
        return self.is_admin or (concerned and self.may_use(grant.scope.app))

    def revokes(self, grant: Grant) -> bool:
        """Say whether its holder may take a grant back: who has given it, and administrators."""
        return self.is_admin or (bool(self.person) and grant.by == self.person)
