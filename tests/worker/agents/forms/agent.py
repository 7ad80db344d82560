"""A workflow that asks for an address, for a yes or a no, and for a number."""

from collections.abc import AsyncGenerator
from typing import Any, Literal

from google.adk.events.request_input import RequestInput
from google.adk.workflow import Workflow
from pydantic import BaseModel
from siblings.agent import journal

Asks = AsyncGenerator[RequestInput, None]


class Address(BaseModel):
    """A shipping address."""

    street: str
    floor: int = 0
    country: Literal["NO", "SE"]


async def place(ctx: Any) -> Asks:
    """Ask where."""
    yield RequestInput(message="Where to?", payload={"order": 17}, response_schema=Address)


async def sure(node_input: Any) -> Asks:
    """Ask whether that is right."""
    journal({"place": node_input})
    yield RequestInput(message="Is it fragile?", response_schema={"type": "boolean"})


async def count(node_input: Any) -> Asks:
    """Ask how many, under an id that is the same in every run."""
    journal({"fragile": node_input})
    schema = {"type": "integer", "minimum": 1, "maximum": 9}
    yield RequestInput(interrupt_id="count", message="How many?", response_schema=schema)


async def code(node_input: Any) -> Asks:
    """Ask for a text that looks like a number."""
    journal({"count": node_input})
    yield RequestInput(message="Which code?", response_schema={"type": "string"})


def ship(node_input: Any) -> str:
    """Ship it."""
    journal({"code": node_input})
    return f"Shipped under {node_input}."


root_agent = Workflow(name="forms", edges=[("START", place, sure, count, code, ship)])
