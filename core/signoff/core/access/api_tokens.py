"""The permissions of API tokens.

A token belongs to one person or to a system. A person's token sees that person's requests and the
requests that they are asked about, submits for that person and decides as that person. A system's
token submits for the ADK users that it names, sees their requests, and decides nothing. So nobody
can make a request and answer it with the same token.
"""

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
"""Stands for every user in `users`."""


BY_ADMIN: Final = frozenset(
    {
        Scope.ADMIN,
        Scope.RUNS_READ,
        Scope.APPROVALS_READ,
        Scope.APPROVALS_WITHDRAW,
        Scope.AUDIT_READ,
    }
)
"""The scopes that an administrator's token includes."""


class Access(Value):
    """An API token without its secret.

    Attributes:
        id: The id, which is part of the token and not secret.
        name: The purpose, in words.
        person: The id of the person to whom it belongs, "" for a system.
        address: The address of that person when it was created; see `Person.is_still`.
        users: For a system: the ADK user ids for whom it submits; `ANYBODY` for all.
        apps: The agents that it may use and see; empty for all.
        instance: The id of the instance whose credential it is, "" for every other token.
        scopes: The scopes.
        sha256: The SHA-256 of its secret, in hexadecimal.
        created_at: When it was created (UTC).
        created_by: Who created it.
        expires_at: When it expires (UTC), None if it does not expire.
    """

    id: str
    name: str = Field("", max_length=64)
    person: str = ""
    address: str = ""
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
        """Its name in the audit and in the log."""
        return self.name or f"token {self.id}"

    @property
    def is_admin(self) -> bool:
        """Whether it sees everything."""
        return Scope.ADMIN in self.scopes

    def allows(self, scope: Scope) -> bool:
        """Say whether it has a scope."""
        return scope in self.scopes or (self.is_admin and scope in BY_ADMIN)

    def has_expired(self, now: datetime) -> bool:
        """Say whether it has expired."""
        return self.expires_at is not None and now >= self.expires_at

    def may_submit(self, app: str, user: str) -> bool:
        """Say whether it may submit to an agent for a user."""
        mine = user == self.person if self.person else bool({ANYBODY, user} & {*self.users})
        return mine and self.may_use(app)

    def may_use(self, app: str) -> bool:
        """Say whether it may use and see an agent."""
        return not self.apps or app in self.apps

    def has_asked(self, user: str, directory: Directory) -> bool:
        """Say whether an ADK user is its person, or one of its users."""
        if self.person:
            return directory.same(self.person, user)
        return bool({ANYBODY, user} & {*self.users})

    def sees_all(self, directory: Directory) -> bool:
        """Say whether it sees all requests: for an administrator, or by its person's role."""
        person = directory.get(self.person)
        return self.is_admin or (person is not None and person.sees_all)

    def sees_run(self, run: Run, directory: Directory) -> bool:
        """Say whether it may see a run."""
        concerned = self.sees_all(directory) or self.has_asked(run.user, directory)
        return self.is_admin or (concerned and self.may_use(run.app))

    def sees(self, approval: Approval, directory: Directory) -> bool:
        """Say whether it may see an approval.

        The requester, everybody whom it `Approval.concerns`, operators and auditors may.
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

    def sees_inside(self, approval: Approval, directory: Directory) -> bool:
        """Say whether it may see the `INSIDE` entries of an approval that it sees."""
        person = directory.get(self.person)
        inside = person is not None and approval.is_inside(person, directory)
        return inside or self.allows(Scope.AUDIT_READ)

    def sees_grant(self, grant: Grant, directory: Directory) -> bool:
        """Say whether it may see a grant: its giver, operators and auditors may."""
        concerned = self.sees_all(directory) or (bool(self.person) and grant.by == self.person)
        return self.is_admin or (concerned and self.may_use(grant.scope.app))

    def revokes(self, grant: Grant) -> bool:
        """Say whether it may revoke a grant: its giver and administrators may."""
        return self.is_admin or (bool(self.person) and grant.by == self.person)
