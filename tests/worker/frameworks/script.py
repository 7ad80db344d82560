"""The script of the contract's agents, in any framework.

The user's message is the plan of the model: JSON, a list of steps, each a list of calls. After
the last step, the model repeats the answers of its tools.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Calls = list[tuple[str, dict[str, Any]]]

before_effect: list[Callable[[], None]] = []
"""Functions that tests run before a tool has its effect."""


def plan(*steps: Calls) -> str:
    """Return the message for these steps."""
    return json.dumps(steps)


def paying(*to: str) -> Calls:
    """Return the calls that pay some people in one step."""
    return [("pay", {"to": one, "amount": 20}) for one in to]


def next_calls(message: str, done: int) -> Calls:
    """Return the calls of the step after this number of calls; none after the last step."""
    steps = json.loads(message)
    return [(name, args) for name, args in steps[done]] if done < len(steps) else []


def last_word(results: Sequence[object]) -> str:
    """Return the model's last message, made of its tools' answers."""
    return "I was told: " + " | ".join(
        one if isinstance(one, str) else json.dumps(one) for one in results
    )


def write(line: dict[str, object]) -> None:
    """Record an effect."""
    for one in before_effect:
        one()
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pay(to: str, amount: float) -> dict[str, Any]:
    """Pay somebody; it needs an approval."""
    if to == "nobody":
        raise ValueError("nobody has no account")
    if to == "exit":
        sys.exit("usage: pay TO")
    write({"paid": to, "amount": amount})
    result: dict[str, Any] = {"paid": to, "amount": amount}
    if to == "itself":
        result["again"] = result
    return result


def note(text: str) -> str:
    """Take a note; it needs none."""
    if text == "exit":
        sys.exit("usage: note TEXT")
    write({"noted": text})
    return f"noted {text}"
