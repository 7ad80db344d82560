"""What the agents of the contract do, whichever framework they are of.

The user's message is the plan of the model: JSON, a list of steps, each a list of calls. When all
steps are done, the model says what its tools have answered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Calls = list[tuple[str, dict[str, Any]]]

before_effect: list[Callable[[], None]] = []
"""What happens before a tool has its effect; tests put it there."""


def plan(*steps: Calls) -> str:
    """Return the message for these steps."""
    return json.dumps(steps)


def paying(*to: str) -> Calls:
    """Return the calls that pay some people at once."""
    return [("pay", {"to": one, "amount": 20}) for one in to]


def next_calls(message: str, done: int) -> Calls:
    """Return the calls of the step behind so many others, none when all are done."""
    steps = json.loads(message)
    return [(name, args) for name, args in steps[done]] if done < len(steps) else []


def last_word(results: Sequence[object]) -> str:
    """Return what the model says at the end, from what its tools have answered."""
    return "I was told: " + " | ".join(
        one if isinstance(one, str) else json.dumps(one) for one in results
    )


def write(line: dict[str, object]) -> None:
    """Write down what was really done."""
    for one in before_effect:
        one()
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pay(to: str, amount: float) -> dict[str, str | float]:
    """Pay somebody; it needs an approval."""
    if to == "nobody":
        raise ValueError("nobody has no account")
    write({"paid": to, "amount": amount})
    return {"paid": to, "amount": amount}


def note(text: str) -> str:
    """Take a note; it needs none."""
    write({"noted": text})
    return f"noted {text}"
