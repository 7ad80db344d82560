"""`signoff mail explain`: how saved replies are read, and why one is unclear."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import present
from cli.conftest import Invoke
from signoff.channels.email.inbound.readers import Readers

REPLY = """\
From: Mara Lind <mara@example.com>
To: approvals@signoff.example
Subject: Re: Approval needed
Content-Type: text/plain; charset=utf-8

{body}

Am Mo., 2. März 2026 um 10:00 Uhr schrieb Signoff <approvals@signoff.example>:

> To say yes:  approve
"""


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    """Return a function that saves a reply with this text and returns its path."""

    def save(body: str, name: str = "reply.eml", head: str = "") -> str:
        path = tmp_path / name
        path.write_text(head + REPLY.format(body=body), encoding="utf-8")
        return str(path)

    return save


def lines(output: str) -> list[dict[str, Any]]:
    """Return the objects of JSON Lines."""
    return [json.loads(line) for line in output.splitlines()]


def test_explained_reply_is_one_json_object(invoke: Invoke, saved: Any) -> None:
    """Its line has everything that was read in the message."""
    file = saved("Genehmigt, danke\ndays: 3\n\n-- \nMara")
    result = invoke("mail", "explain", file, "--json", "--template", '{"days": 0}')
    assert result.exit_code == 0
    (told,) = lines(result.output)
    assert told.pop("sender") == {
        "addresses": ["mara@example.com"],
        "address": "mara@example.com",
        "proven": [],
        "why": "Not checked: name your mail server, or verify signatures (--dns).",
    }
    assert told == {
        "file": file,
        "automatic": False,
        "sign": "",
        "reply": "Genehmigt, danke\ndays: 3",
        "first_line": "Genehmigt, danke",
        "verdict": "approve",
        "reason": "",
        "note": "",
        "values": {"days": 3},
        "problem": "",
        "left_over": [],
        "example": "",
        "parts": [
            {"text": "Genehmigt", "role": "yes"},
            {"text": "danke", "role": "thanks"},
            {"text": "days: 3", "role": "value"},
        ],
    }


def test_only_results_of_the_given_authserv_id_are_trusted(invoke: Invoke, saved: Any) -> None:
    """With --authserv-id, only this server's results on top of the mail are believed."""
    results = "Authentication-Results: mx.example.org; dmarc=pass header.from=example.com\n"
    file = saved("approve", head=results)
    result = invoke("mail", "explain", file, "--json", "--authserv-id", "mx.example.org")
    (told,) = lines(result.output)
    assert told["sender"]["proven"] == ["Authentication-Results of mx.example.org"]
    result = invoke("mail", "explain", file, "--json", "--authserv-id", "mx.other.example")
    (told,) = lines(result.output)
    assert told["sender"]["proven"] == []
    assert told["sender"]["why"] == "mx.other.example added no results to it"


def test_a_bare_text_has_no_sender(invoke: Invoke, tmp_path: Path) -> None:
    """With --text, a file is only a body, so its author is not reported."""
    path = tmp_path / "body.txt"
    path.write_text("reject: too dear\n\nOn 3 May 2026, Signoff <a@x.example> wrote:\n> approve\n")
    (told,) = lines(invoke("mail", "explain", "--text", "--json", str(path)).output)
    assert (told["verdict"], told["reason"], told["reply"]) == (
        "reject",
        "too dear",
        "reject: too dear",
    )
    assert "sender" not in told


def test_automatic_mail_is_unclear_with_its_reason(invoke: Invoke, saved: Any) -> None:
    """It is unclear, and its sign is named."""
    file = saved("approve", head="Auto-Submitted: auto-replied\n")
    (told,) = lines(invoke("mail", "explain", file, "--json").output)
    assert (told["automatic"], told["sign"]) == (True, "Auto-Submitted: auto-replied")
    assert told["verdict"] == "unclear"
    assert "No person wrote this" in told["problem"]


def test_a_tool_shows_what_is_no_yes_to_it(invoke: Invoke, saved: Any) -> None:
    """With --tool, a yes to something else than this tool does is unclear, as for the intake."""
    file = saved("Release the payment")
    verdicts = {
        tool: lines(invoke("mail", "explain", file, "--tool", tool, "--json").output)[0]["verdict"]
        for tool in ("send_payment", "hold_payment")
    }
    assert verdicts == {"send_payment": "approve", "hold_payment": "unclear"}


def test_a_template_gives_the_values_a_kind(invoke: Invoke, saved: Any) -> None:
    """With the template, the values are shown as the tool would get them."""
    file = saved("approve\ndays: 3")
    (told,) = lines(invoke("mail", "explain", file, "--template", '{"days": 0}', "--json").output)
    assert told["values"] == {"days": 3}
    file = saved("approve\ndays: many")
    (told,) = lines(invoke("mail", "explain", file, "--template", '{"days": 0}', "--json").output)
    assert told["verdict"] == "unclear"
    assert 'I read "many"' in told["problem"]
    assert told["example"] == "approve\ndays: 3"


def test_invalid_json_template_is_a_usage_error(invoke: Invoke, saved: Any) -> None:
    """The error says what the option accepts."""
    result = invoke("mail", "explain", saved("approve"), "--template", "days")
    assert result.exit_code == 2
    assert "--template is not JSON" in result.output


def test_unreadable_file_does_not_stop_the_others(
    invoke: Invoke, saved: Any, tmp_path: Path
) -> None:
    """The other files are reported, the bad ones with reasons, and the exit code is 1."""
    bomb = tmp_path / "bomb.eml"
    bomb.write_bytes(b"X: y\n" * 200_000 + b"\n" * 200_000)
    many = tmp_path / "all.mbox"
    many.write_text("From a\n\nFrom b\n\n")
    bad = [str(tmp_path), str(tmp_path / "none.eml"), str(bomb), str(many), "nul\0.eml"]
    result = invoke("mail", "explain", "--json", *bad, saved("ok"))
    assert result.exit_code == 1
    told = lines(result.output)
    assert [one["file"] for one in told[:-1]] == bad
    why = ["is a folder", "No such file", "read at most", "many messages", "null"]
    assert all(words in one["error"] for words, one in zip(why, told[:-1], strict=True))
    assert all(one["verdict"] == "unclear" and one["values"] == {} for one in told[:-1])
    assert told[-1]["verdict"] == "approve"


@pytest.mark.soak
def test_slow_reading_is_stopped_at_the_limit(
    invoke: Invoke, saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intake's limits apply, and the other messages are still reported."""
    odd = Path(__file__).parent.parent / "channels" / "email" / "odd_reader.py"
    program = (str(odd), "/dev/null")
    monkeypatch.setitem(present(Readers.__init__.__kwdefaults__), "program", program)
    files = [saved("!hang", "hang.eml"), saved("!eat", "eat.eml"), saved("!die", "die.eml")]
    result = invoke("mail", "explain", "--json", *files, saved("ok"))
    assert result.exit_code == 1
    told = lines(result.output)
    why = ["more than 2 seconds of work", "too much memory", "ended with status 3"]
    assert all(words in one["error"] for words, one in zip(why, told[:-1], strict=True))
    assert told[-1]["reply"] == "ok"


def test_possibly_quoted_text_is_reported_and_gives_no_verdict(invoke: Invoke, saved: Any) -> None:
    """Text that may be quoted makes no verdict, and the report says so."""
    (told,) = lines(invoke("mail", "explain", saved("approve\n\n| only half"), "--json").output)
    assert (told["verdict"], told["reply"]) == ("unclear", "approve")
    assert "cannot tell which part of your mail you wrote" in told["problem"]


def test_text_report_has_the_reason_and_an_example(invoke: Invoke, saved: Any) -> None:
    """Without --json, the report has the reason and an answer that would work."""
    result = invoke("mail", "explain", saved("yes, but only half"))
    assert result.exit_code == 0
    for words in ("unclear", "“but only half”", "Would work: approve", "nothing.", "Left over:"):
        assert words in result.output


def test_hostile_text_does_not_reach_the_terminal(invoke: Invoke, saved: Any) -> None:
    """Control characters of a mail are not written to a terminal."""
    result = invoke("mail", "explain", saved("\x1b[2Jhello\x07"))
    assert "\x1b" not in result.output
    assert "\x07" not in result.output


def test_standard_input_is_read_without_settings(tmp_path: Path) -> None:
    """A dash means standard input; no settings, Redis or encoding is needed."""
    done = subprocess.run(
        [sys.executable, "-m", "signoff.cli", "mail", "explain", "-", "--json"],
        input=REPLY.format(body="承認します").encode(),
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={"PATH": "", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    )
    (told,) = lines(done.stdout.decode("ascii"))
    assert (told["file"], told["verdict"], told["reply"]) == ("-", "approve", "承認します")


def test_a_text_with_a_mark_of_utf_16_is_read(invoke: Invoke, tmp_path: Path) -> None:
    """Windows saves "Unicode" in this form."""
    file = tmp_path / "reply.txt"
    file.write_bytes("approve\r\nGrüße".encode("utf-16"))
    result = invoke("mail", "explain", "--text", "--json", str(file))
    assert lines(result.output)[0]["verdict"] == "approve"
