"""A host has one normal form in rules, settings and requests."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from signoff.worker.ces.hosts import canonical, matches, pattern, target
from signoff.worker.ces.http import HttpRefused, check, facts
from signoff.worker.ces.rules import Rules

SAME = {
    "api.example.com": [
        "api.example.com",
        "API.Example.COM",
        "api.example.com.",
        "ａｐｉ.example.com",
        "api。example．com",
    ],
    "xn--bcher-kva.example": ["bücher.example", "BÜCHER.example.", "XN--BCHER-KVA.EXAMPLE"],
    "127.0.0.1": [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7F.1",
        "0177.0.0.01",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "::ffff:7f00:1",
        "１２７.0.0.1",
    ],
    "::1": ["[::1]", "0:0:0:0:0:0:0:1", "[0000::0001]"],
    "a_b.internal": ["A_B.internal"],
}


@pytest.mark.parametrize(
    ("written", "form"), [(one, form) for form, others in SAME.items() for one in others]
)
def test_host_notations_have_one_normal_form(written: str, form: str) -> None:
    """Case, a final dot, IDNA, full width, and every notation of an address are normalised."""
    assert canonical(written) == form


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "a-.example",
        "a b",
        "a%2eb",
        "%61",
        "a/b",
        "a@b",
        "a:b",
        "256.1.1.1",
        "1.2.3.4.5",
        "0x100000000",
        "09.1.1.1",
        "1.2.3.999",
        "[fe80::1%eth0]",
        "a" * 64,
        ".".join(["a" * 60] * 5),
        "[",
        "[::1",
        "example.1",
        "a\\b",
        "a\tb",
        "1" * 5000,
    ],
)
def test_ambiguous_host_is_refused(host: str) -> None:
    """An ambiguous host could be read in another way elsewhere."""
    with pytest.raises(ValueError, match=r"."):
        canonical(host)


@given(st.ip_addresses())
def test_an_address_is_its_own_form(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """The result is the address, or the address that it stands for."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    assert ipaddress.ip_address(canonical(str(address))) == (mapped or address)


@given(st.text(max_size=30))
def test_normal_form_of_a_host_is_stable(text: str) -> None:
    """A normal form does not change again."""
    try:
        form = canonical(text)
    except ValueError:
        return
    assert canonical(form) == form
    assert form.isascii()


@given(st.text(max_size=30))
def test_rules_see_the_host_of_the_requested_url(text: str) -> None:
    """For any accepted URL, the facts have the host of the requested URL."""
    asked = {"method": "GET", "url": f"http://{text}/x"}
    try:
        check(asked)
    except HttpRefused:
        return
    shown = facts(asked)
    again = target(shown["url"])
    assert again.host == shown["host"]
    assert str(again.url) == shown["url"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("HTTPS://API.example.com.:443/a/../b?x=1#y", "https://api.example.com/b?x=1"),
        ("http://0x7f.1:80/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]:8080/", "http://127.0.0.1:8080/"),
        ("http://[0:0::1]/", "http://[::1]/"),
    ],
)
def test_rules_see_the_url_as_requested(url: str, shown: str) -> None:
    """A rule sees the URL with its normalised host and without a default port."""
    assert facts({"method": "GET", "url": url})["url"] == shown


@pytest.mark.parametrize(
    "url",
    [
        "https://user@host/",
        "https://u:p@host/",
        "https://ho%73t/",
        "https://host%2e/",
        "//host/",
        "https://host\\@evil/",
        "https://host\t/",
        "https:///x",
        "gopher://host/",
        "https://host:0/",
        "https://host:70000/",
        "http://[fe80::1%25eth0]/",
        "http://[::1]evil/",
        "x" * 70000,
    ],
)
def test_ambiguous_url_is_refused(url: str) -> None:
    """This happens before anybody is asked."""
    with pytest.raises(HttpRefused, match="cannot be requested"):
        check({"method": "GET", "url": url})


def test_configured_hosts_are_normalised() -> None:
    """The settings use the normal form as well."""
    rules = Rules(
        hosts=("API.Example.com.", "*.Bücher.example"), internal_hosts=("Orders:8443", "[::1]:80")
    )
    assert rules.hosts == ("api.example.com", "*.xn--bcher-kva.example")
    assert rules.internal_hosts == ("orders:8443", "[::1]:80")
    assert matches("a.xn--bcher-kva.example", pattern("*.bücher.example"))
    assert not matches("xn--bcher-kva.example", pattern("*.bücher.example"))


@pytest.mark.parametrize("host", ["https://api.example.com", "api.example.com/x", "a b", ""])
def test_invalid_host_in_the_settings_is_refused(host: str) -> None:
    """It is reported when the settings are read."""
    with pytest.raises(ValidationError, match=r"write api\.example\.com, without"):
        Rules(hosts=(host,))


@pytest.mark.parametrize(
    ("rule", "form"),
    [
        ('args.host == "API.example.com"', "api.example.com"),
        ("'api.example.com.' == args.host", "api.example.com"),
        ('args.host != "127.1"', "127.0.0.1"),
        ('args.host.endsWith(".bücher.example")', ".xn--bcher-kva.example"),
        ('tool == "x" && args.host.endsWith(".Example.com")', ".example.com"),
        ('args.host.startsWith("API.")', "api."),
        ('args.host in ["a.example", "bücher.example"]', "xn--bcher-kva.example"),
    ],
)
def test_a_rule_about_a_host_that_is_never_written_like_that_is_refused(
    rule: str, form: str
) -> None:
    """Such a rule would never match, so the requests would not be asked about."""
    with pytest.raises(ValidationError, match=f"write '{form}'"):
        Rules(needs_approval=(rule,))


@pytest.mark.parametrize(
    "rule",
    [
        'tool == "ces_requests.post" && args.host == "api.example.com"',
        'args.host.endsWith(".example.com") || tool == "Refund"',
        'args.host.startsWith("api.") && args.title == "Überweisung"',
        'args.host in ["a.example", "10.0.0.1"]',
    ],
)
def test_rule_values_that_are_not_hosts_are_not_checked(rule: str) -> None:
    """Only values that are compared with a host are checked."""
    assert Rules(needs_approval=(rule,)).needs_approval == (rule,)
