"""Reading `Authentication-Results`, and which of these fields is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.channels.email.authentication.results import MethodResult, parse_results, topmost
from signoff.channels.email.parsing.mime import parse_mail

GMAIL = """\
Delivered-To: approvals@example.org
Received: by 2002:a05:6402:1 with SMTP id x1csp1; Sat, 21 Nov 2026 03:00:01 -0800 (PST)
X-Received: by 2002:a17:907:1 with SMTP id x2mr1; Sat, 21 Nov 2026 03:00:01 -0800 (PST)
ARC-Seal: i=1; a=rsa-sha256; t=1795258801; cv=none; d=google.com; s=arc-20240605; b=AAAA
ARC-Authentication-Results: i=1; mx.google.com;
       dkim=pass header.i=@example.com header.s=s1 header.b=lhk5qU4z;
       dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=example.com
Return-Path: <mara@example.com>
Received: from mail.example.com (mail.example.com. [192.0.2.1])
        by mx.google.com with ESMTPS id x3si1 for <approvals@example.org>
        (version=TLS1_3 cipher=TLS_AES_256_GCM_SHA384 bits=256/256);
        Sat, 21 Nov 2026 03:00:01 -0800 (PST)
Received-SPF: pass (google.com: domain of mara@example.com designates 192.0.2.1 as permitted
 sender) client-ip=192.0.2.1;
Authentication-Results: mx.google.com;
       dkim=pass header.i=@example.com header.s=s1 header.b=lhk5qU4z;
       spf=pass (google.com: domain of mara@example.com designates 192.0.2.1 as permitted sender)
 smtp.mailfrom=mara@example.com;
       dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=example.com
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=s1; h=from:to; bh=A=; b=A=
From: mara@example.com
To: approvals@example.org

approve
"""
MICROSOFT = """\
Received: from AM0P1.EURP1.PROD.OUTLOOK.COM (2603:10a6::1) by DB8P1.EURP1.PROD.OUTLOOK.COM with
 HTTPS; Sat, 21 Nov 2026 11:00:02 +0000
Authentication-Results: spf=pass (sender IP is 192.0.2.1)
 smtp.mailfrom=example.com; dkim=pass (signature was verified)
 header.d=example.com;dmarc=pass action=none
 header.from=example.com;compauth=pass reason=100
Received-SPF: Pass (protection.outlook.com: domain of example.com designates 192.0.2.1 as
 permitted sender) receiver=protection.outlook.com; client-ip=192.0.2.1;
Received: from mail.example.com (192.0.2.1) by AM0FT1.mail.protection.outlook.com with Microsoft
 SMTP Server id 15.20.1; Sat, 21 Nov 2026 11:00:01 +0000
From: mara@example.com
To: approvals@example.org

approve
"""
POSTFIX = """\
Return-Path: <mara@example.com>
Delivered-To: approvals@example.org
Received: from mail.example.com (mail.example.com [192.0.2.1])
\tby mx.example.org (Postfix) with ESMTPS id 4XX for <approvals@example.org>;
\tSat, 21 Nov 2026 11:00:01 +0000 (UTC)
Authentication-Results: mx.example.org;
\tdmarc=pass (p=none dis=none) header.from=example.com
Authentication-Results: mx.example.org; dkim=pass (2048-bit key;
 unprotected) header.d=example.com header.i=@example.com header.b="iKolNvQh";
 dkim-atps=neutral
From: mara@example.com
To: approvals@example.org

approve
"""
OPENARC = """\
Received: from mail.example.com (mail.example.com [192.0.2.1])
\tby smtp.example.org (Postfix) with ESMTPS id 4XX; Sat, 21 Nov 2026 11:00:01 +0000 (UTC)
Authentication-Results: smtp.example.org; arc=none smtp.client-ip=192.0.2.1
ARC-Seal:i=1; a=rsa-sha256; d=example.org; s=arc; t=1; cv=none; b=A
ARC-Authentication-Results:i=1; smtp.example.org; dmarc=pass header.from=example.com
Authentication-Results: smtp.example.org; dmarc=pass (p=none dis=none) header.from=example.com
From: mara@example.com

approve
"""

OPENDKIM = """\
Authentication-Results: mx.example.org;
\tdkim=pass (1024-bit key; unprotected) header.d=evil.example header.i=@evil.example
 header.a=rsa-sha256 header.s=s1 header.b=Tl1zJ1GJ;
\tdkim-atps=neutral
Authentication-Results: mx.example.org; dmarc=pass header.from=example.com
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=evil.example; s=s1; h=from:to; bh=A=; b=Tl
From: mara@example.com

approve
"""


def believed(mail: str, server: str) -> list[str]:
    """Return the believed results as ``method=value``."""
    raw = mail.replace("\n", "\r\n").encode()
    results = topmost(parse_mail(raw).headers, server)
    return [f"{one.method}={one.value}" for one in results.results] if results else []


@pytest.mark.parametrize(
    ("mail", "server", "expected"),
    [
        (GMAIL, "mx.google.com", ["dkim=pass", "spf=pass", "dmarc=pass"]),
        (GMAIL, "MX.Google.com", ["dkim=pass", "spf=pass", "dmarc=pass"]),
        (POSTFIX, "mx.example.org", ["dmarc=pass"]),
        (OPENARC, "smtp.example.org", ["arc=none"]),
        (OPENDKIM, "mx.example.org", ["dkim=pass", "dkim-atps=neutral"]),
        (MICROSOFT, "protection.outlook.com", []),
        (MICROSOFT, "spf", []),
        (GMAIL, "mx.example.org", []),
    ],
)
def test_only_the_first_result_of_our_server_counts(
    mail: str, server: str, expected: list[str]
) -> None:
    """Only the first field counts, and only under our server's name; ARC never counts.

    The second field that OpenDKIM passes on comes from the sender: OpenDKIM removes only fields
    that have a result of DKIM.
    """
    assert believed(mail, server) == expected


def test_results_below_another_field_are_ignored() -> None:
    """A server adds its field on top; a field below From or another server's came with the mail."""
    forged = "Authentication-Results: mx.example.org; dmarc=pass header.from=example.com\n"
    head = "Received: from a by mx.example.org; Sat, 21 Nov 2026 11:00:01 +0000\n"
    assert believed(head + forged + "From: a@example.com\n\nx", "mx.example.org") == ["dmarc=pass"]
    for above in (
        "From: a@example.com\n",
        "DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s; h=from; bh=A; b=A\n",
        "Authentication-Results: other.example.org; none\n",
        "Authentication-Results: mx.example.org; dmarc=fail (\n",
    ):
        assert "dmarc=pass" not in believed(head + above + forged + "\nx", "mx.example.org")


def test_every_form_of_the_grammar_is_read() -> None:
    """Versions, comments, quoted strings, folded lines and unusual addresses are read."""
    results = parse_results(
        'mx.example.org (the (inner) one) 1 ; dkim/1 = pass reason="all; (good)" '
        'header.d = "example.com" (x) header.b=ab+/12==; spf=PASS smtp.mailfrom=a=b+c@example.com;'
        "dmarc=pass(p=none)header.from=example.com; none"
    )
    assert results is not None
    assert results.server == "mx.example.org"
    assert results.results == (
        MethodResult(
            "dkim",
            "pass",
            {"reason": "all; (good)", "header.d": "example.com", "header.b": "ab+/12=="},
        ),
        MethodResult("spf", "pass", {"smtp.mailfrom": "a=b+c@example.com"}),
        MethodResult("dmarc", "pass", {"header.from": "example.com"}),
    )
    assert results.of("spf")[0].domain("header.x", "smtp.mailfrom") == "example.com"
    assert parse_results("mx.example.org; none") is not None


@pytest.mark.parametrize(
    "value",
    [
        "",
        ";",
        "mx.example.org (; dmarc=pass header.from=example.com",
        'mx.example.org; dmarc=pass header.from="example.com',
        "mx.example.org) ; dmarc=pass",
        "mx.example.org another; dmarc=pass",
        "mx.example.org=1; dmarc=pass",
        "mx.example.org; example.com; dmarc=pass",
        "mx.example.org; dmarc=pass header.from=a.example header.from=b.example",
        "spf=pass smtp.mailfrom=example.com; dmarc=pass header.from=example.com",
    ],
)
def test_an_ambiguous_result_is_ignored(value: str) -> None:
    """An open comment or quote, an unknown word, or a property with two values is not read."""
    results = parse_results(value)
    assert results is None or not results.results


@pytest.mark.parametrize(
    "end",
    ["(", "(a\\)", "(()", ")", ' reason="', ' reason="a\\"', " header.d", "; spf", "; spf=pass x"],
)
def test_a_field_that_does_not_end_or_has_a_stray_word_says_nothing(end: str) -> None:
    """Behind a pass, too: somebody else may have written what was cut."""
    said = "mx.example.org; dmarc=pass header.from=example.com"
    assert parse_results(said) is not None
    assert parse_results(said + end) is None
    assert parse_results(said.replace(";", " 1 x;")) is None
    assert parse_results(said.replace(";", " 1=2;")) is None


def test_a_quoted_value_may_contain_any_mark() -> None:
    """A backslash quotes the next mark, in quotes and in comments only."""
    results = parse_results(r'mx.example.org; dmarc=pass (a \) (b)) reason="a\";(" policy.x=a\b')
    assert results is not None
    assert results.results == (
        MethodResult("dmarc", "pass", {"reason": 'a";(', "policy.x": r"a\b"}),
    )


@given(st.text(alphabet='ab.=;()"\\ \tpas1/@', max_size=200))
def test_any_text_is_read_or_refused(value: str) -> None:
    """No text raises an error, and the number of results is at most the number of semicolons."""
    results = parse_results(value)
    assert results is None or len(results.results) <= value.count(";")


def test_hostile_results_are_parsed_in_one_pass() -> None:
    """Deep comments and long runs in the largest field are read in one pass."""
    for bomb in ("(" * 8000, "x" + " " * 8000, ";=" * 4000, '"' * 8000, "a;" + "b=c " * 2000):
        parse_results(f"mx.example.org {bomb}")
