"""The people of the organisation, and who is who across channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field, field_validator

from signoff.core.model import Value


def normal_address(address: str) -> str:
    """Return an email address in the form in which addresses are compared.

    The domain is case-insensitive (RFC 5321, section 2.4); the local part is compared without
    regard to case too, as every large provider does. Non-ASCII letters are not folded onto ASCII
    ones: a look-alike domain stays different.
    """
    return address.strip().lower()


class Person(Value):
    """Somebody who can be asked, or who asks.

    Attributes:
        id: The name that policies use, unique in the directory.
        name: The name that people read.
        email: Where approvals are sent.
        aliases: Further addresses from which this person answers.
        slack: The member id in Slack, ``U012AB3CD``; with the team in front, ``T012AB3CD/U…``, for
            somebody of another organisation who answers in a shared channel.
        addresses: Where this person is reached by channels of one's own, by the channel's name.
    """

    id: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    name: str = ""
    email: str = Field(min_length=3, max_length=254, pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$")
    aliases: tuple[str, ...] = ()
    slack: str = Field(default="", max_length=64, pattern=r"^((T[A-Z0-9]+/)?[UW][A-Z0-9]+)?$")
    addresses: dict[str, str] = Field(default_factory=dict)

    @field_validator("email", "aliases", mode="after")
    @classmethod
    def _printable(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for address in [value] if isinstance(value, str) else value:
            if not address.strip() or not address.isprintable():
                raise ValueError("an address is not empty and has no control characters")
        return value

    def __hash__(self) -> int:
        """Hash by the id: addresses are a dict, which has no hash."""
        return hash(self.id)

    @property
    def shown(self) -> str:
        """The name for people, or the id where there is none."""
        return self.name or self.id

    def owns(self, identity: str) -> bool:
        """Say whether an address, an alias or the id is this person's."""
        wanted = normal_address(identity)
        return wanted in {normal_address(own) for own in (self.id, self.email, *self.aliases)}


class Directory:
    """All people, found by id or by address.

    Args:
        people: Their ids and addresses must be unique; `signoff config check` sees to it.
    """

    def __init__(self, people: Iterable[Person] = ()) -> None:
        self._by_id = {person.id: person for person in people}

    def __iter__(self) -> Iterator[Person]:
        return iter(self._by_id.values())

    def get(self, person_id: str) -> Person | None:
        """Return the person with this id."""
        return self._by_id.get(person_id)

    def by_slack(self, identity: str) -> Person | None:
        """Return the person with this Slack id, in exactly this form."""
        return next(
            (one for one in self._by_id.values() if identity and one.slack == identity), None
        )

    def by_address(self, channel: str, address: str) -> Person | None:
        """Return the person with this address in a channel of one's own, in exactly this form."""
        return next(
            (
                one
                for one in self._by_id.values()
                if address and one.addresses.get(channel) == address
            ),
            None,
        )

    def find(self, identity: str) -> Person | None:
        """Return the person whose id, address or alias this is."""
        return next((person for person in self._by_id.values() if person.owns(identity)), None)

    def same(self, one: str, other: str) -> bool:
        """Say whether two identities (ids, addresses, aliases) are one person."""
        if normal_address(one) == normal_address(other):
            return True
        person = self.find(one)
        return person is not None and person.owns(other)
