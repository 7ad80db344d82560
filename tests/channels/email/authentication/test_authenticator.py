"""The proven author of a mail: real signatures, real DNS, and every forgery that must fail."""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime, timedelta
from itertools import count

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.dmarc import aligned
from signoff.channels.email.authentication.lookup import Txt, is_name
from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.channels.email.authentication.signatures import parse_tags, signatures_in
from signoff.channels.email.parsing.mime import parse_headers
from signoff.channels.email.parsing.reading import read_mail
from zone import FIELDS, Signer, Zone, letter

CARD = "approvals+token@signoff.example"
COMPANY = Signer("example.com")
PASS = "Authentication-Results: mx.signoff.example; dmarc=pass header.from=example.com\r\n"
SERVER = "mx.signoff.example"


async def prove(
    raw: bytes,
    zone: Zone | None = None,
    *,
    server: str = "",
    peer: str = "",
    strict: bool = False,
    now: datetime | None = None,
) -> Proof:
    """Return the proof of a mail's author; signatures are verified if there is a zone."""
    authenticator = Authenticator(
        authserv_id=server,
        relays=[ipaddress.ip_network("127.0.0.0/8")],
        dkim=zone is not None,
        strict=strict,
        txt=zone.txt() if zone is not None else None,
    )
    mail = read_mail(raw)
    now = now or datetime.now(UTC)
    return await authenticator.prove(raw, mail.sender, peer=peer, now=now)


@pytest.mark.parametrize("algorithm", ["rsa-sha256", "ed25519-sha256"])
@pytest.mark.parametrize("form", [(b"simple", b"simple"), (b"relaxed", b"relaxed")])
async def test_an_aligned_signature_proves_the_author(
    zone: Zone, algorithm: str, form: tuple[bytes, bytes]
) -> None:
    """RSA and Ed25519 both count, and the signature covers the recipient's address."""
    signer = Signer("example.com", algorithm=algorithm)
    zone.publish(signer)
    raw = signer.sign(letter(text="approve  \r\n\r\n-- \r\nMara\r\n\r\n"), canonicalize=form)
    proof = await prove(raw, zone)
    assert (proof.proven, proof.domain, proof.address) == (
        Proven.DMARC,
        "example.com",
        "mara@example.com",
    )
    assert proof.vouches_for(CARD)
    assert not proof.vouches_for("approvals+other@signoff.example")
    assert await prove(raw.replace(b"\r\n", b"\n"), zone) == proof


async def test_an_organisational_domain_signature_counts_unless_strict(zone: Zone) -> None:
    """The public suffix list allows it; the strict setting or the domain's policy forbids it."""
    signer = Signer("mail.example.co.uk")
    zone.publish(signer)
    raw = signer.sign(letter(sender="mara@example.co.uk"))
    assert (await prove(raw, zone)).proven is Proven.DMARC
    assert (await prove(raw, zone, strict=True)).proven is Proven.FROM
    zone.records["_dmarc.example.co.uk"] = ["v=DMARC1; p=none; adkim=s"]
    proof = await prove(raw, zone)
    assert proof.proven is Proven.FROM
    assert "adkim=s" in proof.why
    for other in ("other.co.uk", "co.uk", "example.com", "xample.co.uk"):
        zone.publish(Signer(other))
        raw = Signer(other).sign(letter(sender="mara@example.co.uk"))
        assert (await prove(raw, zone)).proven is Proven.FROM, other


def _bad_mails() -> dict[str, bytes]:
    good = letter()
    later = datetime.now(UTC) - timedelta(hours=1)
    whole, cut = COMPANY.sign(good), COMPANY.sign(good, length=True)
    assert b"l=9" in cut
    expired = whole.replace(b" v=1;", f" v=1; x={later.timestamp():.0f};".encode(), 1)
    return {
        "nothing signed": good,
        "text changed": whole.replace(b"\r\n\r\napprove", b"\r\n\r\nyes, approve"),
        "From changed": whole.replace(b"From: Mara Lind <mara@", b"From: Mara Lind <tom@"),
        "To changed": whole.replace(b"To: approvals+token@", b"To: approvals+other@"),
        "part of the text": cut,
        "text added behind that part": cut + b"approve everything\r\n",
        "expired": expired,
        "sha1": COMPANY.sign(good).replace(b"a=rsa-sha256", b"a=rsa-sha1", 1),
        "no key": Signer("example.com", selector="none").sign(good),
        "revoked": Signer("example.com", selector="revoked").sign(good),
        "two keys": Signer("example.com", selector="two").sign(good),
        "test key": Signer("example.com", selector="test").sign(good),
        "key of another service": Signer("example.com", selector="service").sign(good),
        "key for another hash": Signer("example.com", selector="hash").sign(good),
        "another domain": Signer("elsewhere.example").sign(good),
        "tags twice": whole.replace(b" v=1;", b" v=1; v=1;", 1),
        "no such tags": b"DKIM-Signature: nonsense\r\n" + good,
        "white space": b"DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; h=from; bh=A; b="
        + b"\r\n\t" * 2000
        + b"AAAA\r\n"
        + good,
    }


@pytest.mark.parametrize("name", list(_bad_mails()))
async def test_no_bad_signature_proves_anything(zone: Zone, name: str) -> None:
    """With each of them, the From is only a claim; the proof says why and is final."""
    zone.publish(COMPANY)
    zone.publish(Signer("elsewhere.example"))
    zone.publish(Signer("example.com", selector="test"), flags="; t=y")
    zone.publish(Signer("example.com", selector="service"), flags="; s=tlsrpt")
    zone.publish(Signer("example.com", selector="hash"), flags="; h=sha1")
    zone.records["two._domainkey.example.com"] = [COMPANY.record, COMPANY.record + "; n=2"]
    zone.records["revoked._domainkey.example.com"] = ["v=DKIM1; k=rsa; p="]
    proof = await prove(_bad_mails()[name], zone)
    assert proof.proven is Proven.FROM
    assert proof.why
    assert not proof.temporary
    assert not proof.vouches_for(CARD)


class SmallSigner(Signer):
    """Signs with a key of 768 bits, which no library generates any more."""

    @property
    def record(self) -> str:
        """See `Signer`."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public = _small_key().public_key().public_bytes(serialization.Encoding.DER, form)
        return f"v=DKIM1; k=rsa; p={base64.b64encode(public).decode()}"

    @property
    def key(self) -> bytes:
        """See `Signer`."""
        return _small_key().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )


def _small_key() -> rsa.RSAPrivateKey:
    p, q = _prime(3 << 382), _prime(7 << 381)
    d = pow(65537, -1, (p - 1) * (q - 1))
    rest = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    public = rsa.RSAPublicNumbers(65537, p * q)
    return rsa.RSAPrivateNumbers(p, q, d, *rest, public).private_key()


def _prime(start: int) -> int:
    """Return a prime above an even number (by Fermat's test, which is enough for these two)."""
    return next(one for one in count(start + 1, 2) if pow(2, one - 1, one) == 1)


async def test_a_signature_with_a_small_key_is_rejected(zone: Zone) -> None:
    """A valid signature with a key below the limit does not count."""
    small = SmallSigner("example.com")
    zone.publish(small)
    raw = small.sign(letter())
    key = small.record.rpartition("; ")[2].encode()
    verifier = dkim.DKIM(raw, minkey=768)
    assert verifier.verify(dnsfunc=lambda _name, timeout=0: b"v=DKIM1; k=rsa; " + key)
    proof = await prove(raw, zone)
    assert proof.proven is Proven.FROM
    assert "too small" in proof.why


async def test_a_body_of_spaces_is_verified_in_linear_time(zone: Zone) -> None:
    """The library's expressions would take quadratic time; the result stays the same."""
    zone.publish(COMPANY)
    bomb = letter(text="approve" + " " * 900_000 + "\r\n")
    raw = COMPANY.sign(letter(text="approve\r\n"))
    head = raw.partition(b"\r\n\r\n")[0]
    proof = await prove(head + b"\r\n\r\n" + bomb.partition(b"\r\n\r\n")[2], zone)
    assert proof.proven is Proven.DMARC


async def test_a_dns_outage_is_a_temporary_failure(zone: Zone) -> None:
    """SERVFAIL and silence are temporary; a silent name is not asked again immediately."""
    raw = COMPANY.sign(letter())
    name = "s1._domainkey.example.com"
    zone.publish(COMPANY)
    zone.broken.add(name)
    proof = await prove(raw, zone)
    assert (proof.proven, proof.temporary) == (Proven.FROM, True)
    zone.broken.clear()
    zone.silent.add(name)
    txt = Txt([zone.server], timeout=0.2)
    assert await txt.records(name) is None
    asked = len(zone.asked)
    assert await txt.records(name) is None
    assert len(zone.asked) == asked


async def test_answers_of_the_dns_are_remembered(zone: Zone) -> None:
    """The same key is looked up once; an invalid name is never looked up."""
    zone.publish(COMPANY)
    txt = zone.txt()
    name = "s1._domainkey.example.com"
    assert await txt.records(name) == await txt.records(name) == (COMPANY.record.encode(),)
    assert zone.asked == [name]
    for wrong in ("a..b", "a b.example", "ä.example", "x" * 64 + ".example", "a\0.example", ""):
        assert await txt.records(wrong) == ()
    assert zone.asked == [name]


async def test_a_mail_addressed_to_another_person_does_not_prove_a_token(zone: Zone) -> None:
    """A mail that was sent on to a token fails: with its own To, an added or an unsigned one."""
    zone.publish(COMPANY)
    elsewhere = COMPANY.sign(letter(to="tom@example.com"))
    unsigned = COMPANY.sign(letter(to="tom@example.com"), fields=("from", "subject"))
    for raw in (
        elsewhere,
        f"To: {CARD}\r\n".encode() + elsewhere,
        f"Cc: {CARD}\r\n".encode() + elsewhere,
        f"Delivered-To: {CARD}\r\n".encode() + elsewhere,
        unsigned.replace(b"tom@example.com", CARD.encode()),
    ):
        proof = await prove(raw, zone)
        assert proof.proven is Proven.DMARC
        assert not proof.vouches_for(CARD)
    in_copy = COMPANY.sign(letter(to="tom@example.com", more=f"Cc: {CARD}\r\n"))
    assert (await prove(in_copy, zone)).vouches_for(CARD)


async def test_the_proof_names_the_unsigned_fields(zone: Zone) -> None:
    """A signature without Subject, Date and Message-ID holds, and the proof names them."""
    zone.publish(COMPANY)
    proof = await prove(COMPANY.sign(letter(), fields=("from", "to")), zone)
    assert proof.vouches_for(CARD)
    assert "it does not cover subject, date, message-id" in proof.why


async def test_a_dmarc_pass_of_our_server_proves_the_author() -> None:
    """Only a dmarc=pass of our server, on top and for exactly the From's domain, counts."""
    raw = PASS.encode() + letter()
    proof = await prove(raw, server=SERVER, peer="127.0.0.1")
    assert (proof.proven, proof.domain) == (Proven.DMARC, "example.com")
    assert proof.vouches_for(CARD), "no signature: it has passed SPF, and nobody has sent it on"
    assert (await prove(raw, server=SERVER)).proven is Proven.DMARC, "fetched from the mailbox"
    assert (await prove(raw, server=SERVER, peer="::ffff:127.0.0.1")).proven is Proven.DMARC
    for peer, server in (
        ("203.0.113.9", SERVER),
        ("nonsense", SERVER),
        ("127.0.0.1", "mx.other.example"),
        ("127.0.0.1", ""),
    ):
        assert (await prove(raw, server=server, peer=peer)).proven is Proven.FROM
    for forged in (
        PASS.replace("=pass", "=fail"),
        PASS.replace("=pass", "=none"),
        PASS.replace("=pass", "=bestguesspass"),
        PASS.replace("header.from=example.com", "header.from=mail.example.com"),
        PASS.replace("header.from=example.com", ""),
        PASS.replace("dmarc=pass", "spf=pass smtp.mailfrom=mara@example.com;dkim=fail"),
        PASS.replace("dmarc=pass", "arc=pass"),
        PASS.replace("dmarc=pass", "dmarc=fail header.from=example.com; dmarc=pass"),
        PASS.replace("Authentication", "ARC-Authentication"),
        PASS.replace(": ", ": i=1; "),
    ):
        proof = await prove(forged.encode() + letter(), server=SERVER, peer="127.0.0.1")
        assert proof.proven is Proven.FROM, forged


async def test_an_aligned_dkim_pass_of_our_server_proves_the_author() -> None:
    """An aligned dkim=pass counts; the covered fields are read from exactly that signature."""
    raw = COMPANY.sign(letter())
    start = raw.partition(b" b=")[2][:8].decode().strip()
    line = f"Authentication-Results: {SERVER}; dkim=pass"
    for said in (
        "header.d=example.com",
        "header.i=@example.com",
        f"header.d=example.com header.b={start[:4]}",
    ):
        proof = await prove(f"{line} {said}\r\n".encode() + raw, server=SERVER)
        assert proof.vouches_for(CARD), said
    other = COMPANY.sign(letter(), fields=("from", "subject"))
    two = other[: other.index(b"From:")] + raw
    assert not (
        await prove(f"{line} header.d=example.com\r\n".encode() + two, server=SERVER)
    ).vouches_for(CARD)
    for said in ("header.d=elsewhere.example", "header.d=example.com header.b=AAAA", ""):
        proof = await prove(f"{line} {said}\r\n".encode() + raw, server=SERVER)
        assert not proof.vouches_for(CARD), said


async def test_results_do_not_help_a_mail_that_was_sent_on() -> None:
    """A signed mail to somebody else does not prove a token's author; one with SPF does."""
    elsewhere = COMPANY.sign(letter(to="tom@example.com"))
    for raw in (
        elsewhere,
        COMPANY.sign(letter(), fields=("from",)),
        COMPANY.sign(letter(), length=True),
        f"To: {CARD}\r\n".encode() + elsewhere,
        # The sender adds an invalid signature on top that covers the card's address.
        b"DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=x; h=from:to; bh=A; b=A\r\n"
        + elsewhere.replace(b"To: tom@example.com", f"To: {CARD}".encode()).replace(
            b"h=from : to", b"h=from : cc"
        ),
        Signer("bulk.example").sign(letter(to="tom@example.com")),
    ):
        proof = await prove(PASS.encode() + raw, server=SERVER)
        assert proof.proven is Proven.DMARC
        assert not proof.vouches_for(CARD)
    sent = PASS.replace("; ", "; spf=pass smtp.mailfrom=bounce@mail.example.com; ", 1)
    assert (await prove(sent.encode() + elsewhere, server=SERVER)).vouches_for(CARD)


@pytest.mark.parametrize("result", ["dmarc=pass header.from", "dkim=pass header.d"])
async def test_a_signature_that_is_not_parsed_may_be_the_one_that_passed(result: str) -> None:
    """Fake signatures on top, or a tag of another kind, would hide which fields are signed."""
    fake = b"DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=x; h=from:to; bh=A; b=A\r\n"
    real = COMPANY.sign(letter(), fields=("from", "subject"))
    strange = real.replace(b" v=1;", b" v=1; mark;", 1)
    line = f"Authentication-Results: {SERVER}; {result}=example.com\r\n".encode()
    for raw in (fake * 20 + real, fake + strange, strange):
        proof = await prove(line + raw, server=SERVER)
        assert not proof.vouches_for(CARD)
    assert (await prove(line + COMPANY.sign(letter()), server=SERVER)).vouches_for(CARD)


async def test_signatures_are_verified_without_a_server_result(zone: Zone) -> None:
    """Both sources are asked, and the proof says what both lack."""
    zone.publish(COMPANY)
    assert (await prove(COMPANY.sign(letter()), zone, server=SERVER)).vouches_for(CARD)
    proof = await prove(letter(), zone, server=SERVER)
    assert SERVER in proof.why
    assert "no DKIM signature" in proof.why


BULK = Signer("bulk.example")
ELSEWHERE = COMPANY.sign(letter(to="tom@example.com"))


@pytest.mark.parametrize(
    ("spf", "vouches"),
    [
        ("spf=pass smtp.mailfrom=example.com", True),
        ("spf=pass smtp.mailfrom=bounce@mail.example.com", True),
        ("spf=fail smtp.mailfrom=example.com", False),
        ("spf=pass smtp.mailfrom=elsewhere.example", False),
        ("spf=pass", False),
    ],
)
async def test_only_an_aligned_spf_pass_shows_that_nobody_sent_it_on(
    spf: str, *, vouches: bool
) -> None:
    """Otherwise the pass of DMARC may be that of a signature of a mail to somebody else."""
    said = PASS.replace("; ", f"; {spf}; ", 1).encode() + ELSEWHERE
    proof = await prove(said, server=SERVER)
    assert proof.proven is Proven.DMARC
    assert proof.vouches_for(CARD) is vouches
    exact = spf.endswith("=example.com")
    assert (await prove(said, server=SERVER, strict=True)).vouches_for(CARD) is (vouches and exact)


@pytest.mark.parametrize("result", ["dmarc=pass header.from", "dkim=pass header.d"])
async def test_signatures_of_other_domains_count_only_without_one_of_the_authors(
    result: str,
) -> None:
    """A mailing service signs as well, and covers less."""
    line = f"Authentication-Results: {SERVER}; {result}=example.com\r\n".encode()
    both = BULK.sign(COMPANY.sign(letter()), fields=("from",))
    assert (await prove(line + both, server=SERVER)).vouches_for(CARD)
    turned = BULK.sign(COMPANY.sign(letter(), fields=("from",)))
    assert not (await prove(line + turned, server=SERVER)).vouches_for(CARD)
    alone = await prove(line + BULK.sign(letter()), server=SERVER)
    assert alone.vouches_for(CARD) is result.startswith("dmarc")


@pytest.mark.parametrize(
    "said",
    [
        "dmarc=pass header.from=example.com; dmarc=pass header.from=example.com",
        "dmarc=pass header.from=example.com; dmarc=fail header.from=example.com",
        "dkim=fail header.d=example.com",
        "dkim=pass header.d=elsewhere.example",
        "dkim=pass header.d=com",
        'dkim=pass header.d="x y.example.com"',
        "dkim=pass",
    ],
)
async def test_result_that_is_no_aligned_pass_proves_nothing(said: str) -> None:
    """This holds for a mail with a signature of the author's domain, too."""
    line = f"Authentication-Results: {SERVER}; {said}\r\n".encode()
    proof = await prove(line + COMPANY.sign(letter()), server=SERVER)
    assert (proof.proven, proof.by, proof.contents) == (Proven.FROM, "", ())


async def test_a_domain_without_a_policy_is_proven_by_its_signature() -> None:
    """A server reports dmarc=none for it; header.d names the signer exactly, header.i does not."""
    raw = Signer("mail.example.com").sign(letter())
    for said, vouches in (
        ("dmarc=none header.from=example.com; dkim=pass header.d=mail.example.com", True),
        ("dkim=pass header.i=@example.com", True),
        ("dkim=pass header.d=example.com", False),
    ):
        line = f"Authentication-Results: {SERVER}; {said}\r\n".encode()
        assert (await prove(line + raw, server=SERVER)).vouches_for(CARD) is vouches, said


async def test_each_network_of_relays_is_trusted() -> None:
    """The addresses of the settings need not be one network; a zone of an address is ignored."""
    raw = PASS.encode() + letter()
    known = Authenticator(authserv_id=SERVER, relays=["192.0.2.1", "2001:db8::/32"])
    now = datetime.now(UTC)
    for peer, trusted in (
        ("192.0.2.1", True),
        ("2001:db8::9", True),
        ("2001:db8::9%eth0", True),
        ("::ffff:192.0.2.1", True),
        ("192.0.2.2", False),
        ("2001:db9::9", False),
    ):
        proof = await known.prove(raw, "mara@example.com", peer=peer, now=now)
        assert (proof.proven is Proven.DMARC) is trusted, peer


async def test_a_subdomains_signature_must_hold_and_be_allowed(zone: Zone) -> None:
    """The policy of the domain forbids none of its own signatures, and repairs none."""
    sub = Signer("mail.example.com")
    zone.publish(sub)
    zone.publish(COMPANY)
    changed = sub.sign(letter()).replace(b"\r\n\r\napprove", b"\r\n\r\nyes, approve")
    proof = await prove(changed, zone)
    assert (proof.proven, proof.temporary) == (Proven.FROM, False)
    assert "it does not hold" in proof.why
    zone.broken.add("_dmarc.example.com")
    proof = await prove(sub.sign(letter()), zone)
    assert (proof.proven, proof.temporary) == (Proven.FROM, True)
    assert (await prove(COMPANY.sign(letter()), zone)).proven is Proven.DMARC


@pytest.mark.parametrize(
    ("records", "strict"),
    [
        ([], False),
        (["v=DMARC1; p=none"], False),
        (["v=DMARC1; p=none; adkim=r"], False),
        (["v=DMARC1; p=none; adkim=S"], True),
        (["v=spf1 -all", "v=DMARC1; adkim=s"], True),
        (["v=DMARC1; adkim=s", "v=DMARC1; adkim=s; p=none"], False),
        (["v=DMARC1; adkim=s; adkim=s"], False),
    ],
)
async def test_a_policy_demands_the_exact_domain(
    zone: Zone, records: list[str], *, strict: bool
) -> None:
    """Several policies, or one that cannot be read, are none (RFC 7489, section 6.6.3)."""
    sub = Signer("mail.example.com")
    zone.publish(sub)
    zone.publish(COMPANY)
    zone.records["_dmarc.example.com"] = records
    assert (await prove(COMPANY.sign(letter()), zone)).proven is Proven.DMARC
    proof = await prove(sub.sign(letter()), zone)
    assert proof.proven is (Proven.FROM if strict else Proven.DMARC)


async def test_best_of_two_valid_signatures_names_the_recipients(zone: Zone) -> None:
    """Their order does not matter, and the proof has the content of both."""
    sub = Signer("mail.example.com")
    zone.publish(sub)
    zone.publish(COMPANY)
    for first, second in ((sub, COMPANY), (COMPANY, sub)):
        for fields in (("from",), FIELDS):
            raw = first.sign(second.sign(letter(), fields=fields), fields=FIELDS)
            proof = await prove(raw, zone)
            assert proof.vouches_for(CARD)
            assert len(set(proof.contents)) == 2
        raw = first.sign(second.sign(letter()), fields=("from",))
        assert (await prove(raw, zone)).vouches_for(CARD)


async def test_signature_that_leaves_the_reading_open_vouches_for_no_recipient(zone: Zone) -> None:
    """Another mail could be made of it by a field that the signature does not cover."""
    zone.publish(COMPANY)
    escaped = letter(text="approve=20\r\n", more="Content-Transfer-Encoding: 7bit\r\n")
    fields = (*FIELDS, "content-transfer-encoding")
    open_, sealed = COMPANY.sign(escaped), COMPANY.sign(escaped, fields=fields)
    assert (await prove(sealed, zone)).vouches_for(CARD)
    proof = await prove(open_, zone)
    assert (proof.proven, proof.open, proof.vouches_for(CARD)) == (Proven.DMARC, True, False)
    sent = PASS.replace("; ", "; spf=pass smtp.mailfrom=example.com; ", 1).encode()
    for raw in (open_, sealed):
        assert not (await prove(sent + raw, server=SERVER)).open
    assert not (await prove(PASS.encode() + sealed, server=SERVER)).open
    two = await prove(PASS.encode() + COMPANY.sign(open_, fields=fields), server=SERVER)
    assert (two.open, two.vouches_for(CARD)) == (True, False)


@pytest.mark.parametrize(
    ("tag", "problem"),
    [
        (" x=1767225600", "it has expired"),
        (" x=1767225601", "it does not hold"),
        (" x=176722560x", "when it expires cannot be read"),
        (" x=١٧٦٧٢٢٥٦٠١", "when it expires cannot be read"),
        (" x=9999999999999", "when it expires cannot be read"),
        (" x=999999999999", "it does not hold"),
    ],
)
async def test_a_tag_of_a_signature_is_judged(zone: Zone, tag: str, problem: str) -> None:
    """A signature expires at a moment that can be read; a tag that was added breaks it."""
    zone.publish(COMPANY)
    raw = COMPANY.sign(letter()).replace(b" v=1;", f" v=1;{tag};".encode(), 1)
    proof = await prove(raw, zone, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert proof.proven is Proven.FROM
    assert problem in proof.why


@pytest.mark.parametrize(
    ("identity", "flags", "holds"),
    [
        ("@example.com", "; t=s", True),
        ("", "; t=s", True),
        ("@mail.example.com", "; t=s", False),
        ("@mail.example.com", "", True),
        ("", "; s=email", True),
        ("", "; h=sha1:sha256", True),
        ("", "; v=DKIM2", False),
        ("", "; k=rsa", False),
    ],
)
async def test_a_key_may_be_for_few_signatures(
    zone: Zone, identity: str, flags: str, *, holds: bool
) -> None:
    """The record says for what it is; one that cannot be read is for nothing."""
    zone.records["s1._domainkey.example.com"] = [
        COMPANY.record.removeprefix("v=DKIM1; ") + flags
        if "v=" in flags
        else COMPANY.record + flags
    ]
    raw = COMPANY.sign(letter(), identity=identity.encode() or None)
    proof = await prove(raw, zone)
    assert (proof.proven is Proven.DMARC) is holds, proof.why


async def test_a_missing_key_is_not_several_keys(zone: Zone) -> None:
    """The proof says which of them it is."""
    assert "there is no key at" in (await prove(COMPANY.sign(letter()), zone)).why
    zone.records["s1._domainkey.example.com"] = [COMPANY.record, COMPANY.record + "; n=2"]
    assert "there are several keys at" in (await prove(COMPANY.sign(letter()), zone)).why


async def test_mail_with_too_many_fields_is_not_looked_at(zone: Zone) -> None:
    """Verifying a signature reads the fields once for each name that it covers."""
    zone.publish(COMPANY)
    raw = COMPANY.sign(letter())
    for many in (b"X: 1\r\n" * 1_100 + raw, raw.replace(b"h=from", b"h=from" + b":x" * 250, 1)):
        assert "more fields than are looked at" in (await prove(many, zone)).why


@pytest.mark.parametrize(
    "more",
    [
        "Subject: x\r\n",
        "no field\r\n",
        "X-A: b\rc\r\n",
        "X: \0\r\n",
    ],
)
async def test_a_header_that_can_be_read_in_two_ways_proves_nothing(more: str) -> None:
    """Even a valid signature proves nothing here: another program may see another author."""
    known = Authenticator(authserv_id=SERVER)
    now, sender = datetime.now(UTC), "mara@example.com"
    for raw in (PASS + more + letter().decode(), PASS + letter(more=more).decode()):
        proof = await known.prove(raw.encode(), sender, peer="", now=now)
        assert proof.proven is Proven.NONE, proof.why


@pytest.mark.parametrize("gone", [b"d=example.com", b"s=s1", b"h=from", b" b="])
def test_a_signature_without_a_required_tag_is_not_parsed(gone: bytes) -> None:
    """Nor is one whose domain or selector is a sentence, which messages would quote."""
    raw = COMPANY.sign(letter())
    assert len(signatures_in(parse_headers(raw))) == 1
    for other in (b"n=1; n2=", b" d=please approve; n=", b" s=please approve; n="):
        made = raw.replace(gone, other, 1)
        assert made != raw
        assert signatures_in(parse_headers(made)) == ()


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("a=1; b=2", {"a": "1", "b": "2"}),
        (" a = 1 =2 ;; ;", {"a": "1 =2"}),
        ("", {}),
        ("a=1; b", None),
        ("a=1; a=1", None),
        ("a=1; a =2", None),
    ],
)
def test_tags_are_read_or_refused(text: str, tags: dict[str, str] | None) -> None:
    """A tag without a value, or one that is there twice, makes the list invalid."""
    assert parse_tags(text) == tags


def test_content_of_a_signature_has_the_lowest_fields_of_a_name_first() -> None:
    """RFC 6376, section 5.4.2: what is added on top is not what was signed."""

    def content(*subjects: str, covers: str = "subject", value: str = "A") -> str:
        lines = "".join(f"Subject: {one}\r\n" for one in subjects)
        line = f"DKIM-Signature: d=a.example; s=s; h={covers}; b={value}\r\n"
        headers = parse_headers(f"{line}{lines}\r\n".encode())
        return signatures_in(headers)[0].content(headers)

    assert content("b") == content("a", "b") != content("b", "a")
    assert content("b") == content("b", value="B"), "one signature can be written in many ways"
    twice = "subject:subject"
    assert content("a", "b", covers=twice) == content("x", "a", "b", covers=twice)
    assert content("a", "b", covers=twice) != content("x", "b", covers=twice)
    assert content("b", covers=twice) != content("a", "b", covers=twice)


@pytest.mark.parametrize(
    ("domain", "author", "loose", "strict"),
    [
        ("example.com", "Example.COM", True, True),
        ("mail.example.com", "example.com", True, False),
        ("example.com", "mail.example.com", True, False),
        ("example.co.uk", "other.co.uk", False, False),
        ("co.uk", "example.co.uk", False, False),
        ("com", "org", False, False),
        ("co.uk", "com", False, False),
        ("", "", False, False),
    ],
)
def test_domains_of_one_organisation_are_aligned(
    domain: str, author: str, *, loose: bool, strict: bool
) -> None:
    """Public suffixes are no organisation, and neither is nothing."""
    assert aligned(domain, author, strict=False) is loose
    assert aligned(domain, author, strict=True) is strict


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("example.com", True),
        ("s1._domainkey.ex-ample.com", True),
        ("x" * 63, True),
        ("x" * 64, False),
        (".".join(["x" * 62] * 4), True),
        (".".join(["x" * 62] * 4) + ".x", True),
        (".".join(["x" * 62] * 4) + ".xx", False),
        ("", False),
        ("a..b", False),
        ("a b", False),
        ("bücher.example", False),
    ],
)
def test_a_text_of_a_mail_may_be_a_name(name: str, *, fits: bool) -> None:
    """At most 253 characters, in labels of 1 to 63 letters, digits, hyphens and underscores."""
    assert is_name(name) is fits


@pytest.mark.parametrize(
    "fields",
    [
        "From: mara@example.com\r\nFrom: mallory@elsewhere.example\r\n",
        "From: mara@example.com, mallory@elsewhere.example\r\n",
        "From: managers: mara@example.com;\r\n",
        "From: mara(x)@example.com\r\n",
        "From: =?utf-8?q?mara=40example=2Ecom?=\r\n",
        "From: mara@example.com <mallory@elsewhere.example>\r\n",
        "Sender: mara@example.com\r\nReply-To: mara@example.com\r\n",
        "From : mara@example.com\r\nFrom: mara@example.com\r\n",
        "X-A: b\rFrom: mara@example.com\r\nFrom: tom@example.com\r\n",
    ],
)
async def test_an_ambiguous_from_has_no_author(fields: str) -> None:
    """Such a mail has no author, whatever a server says about it."""
    raw = (PASS + fields + f"To: {CARD}\r\n\r\napprove\r\n").encode()
    proof = await prove(raw, server=SERVER, peer="127.0.0.1")
    assert proof.proven is Proven.NONE or proof.address != "mara@example.com"
    assert not (proof.proven is Proven.DMARC and proof.address == "mara@example.com")
