"""A yes with other words: what takes it back, puts it off or only opens a sentence is no yes."""

from __future__ import annotations

import pytest

from signoff.core.command import Verdict, read_command

DOUBTED = """\
Ok, I don't think we should do this.
Ok, so I don't think this is right
Yes, I saw this. Please do not proceed.
Yes, I got it, will look at it tomorrow
OK, got it. I'll come back to you.
Yes: I have questions about this
Ok, noted
OK, I am not going to approve that
Yes, this is wrong
Ok, please cancel it
Ok, I'm out of the office until Monday
Yes, I am on vacation until 3 May
yes, pending legal's review
approved, subject to legal review
Approved, assuming Tom agrees
ok, as soon as Tom agrees
Approved, this is fine if Tom agrees
Ok, make it 500
Ok, reduce it to 500
Approved, for 500 rather than 900
yes, tomorrow
Ok. Who is this
Yes, this looks like phishing
Yes, I will forward this to Tom
OK, this is a scam
OK, nah
yes, thanks, no
👍🏽 haha no
Agreed, too expensive
approve: false
Approve (mailto:approvals@x.example)
Approve: https://x.example/
Approved: [ ]
Approved: ☐
Yes! We got your message. We'll reply within 24 hours.
Yes, I'm travelling with limited access to email
yes (automatic reply)
OK, unsubscribe
ok, probably
ok, for now
Ok, test
ok, minus 10 %
Ok, 3 days
Ok, for 3 days
ok, from another budget
Ja, grundsätzlich
Ja! Endlich Urlaub. Vertretung: Tom
Oui, je suis en déplacement
はい、自動返信です
好的,这是自动回复
Ja, das geht so nicht
Ja, leider geht das nicht
Ja, ich bin im Urlaub
Ok, bitte stornieren
Okay, ich schaue es mir morgen an
Ja, vorbehaltlich der Zustimmung
Si, comme je le pense, cela coûte cher
Si, par hasard, le budget le permet
Oui, c'est trop cher
Oui, j'ai vu. N'y touchez pas.
D'accord, annulez
Sí, cancelar
Vale, lo veo mañana
Sim, cancele
Va bene, annulla
Va bene, ci penso
Oke, annuleer
はい、確認します
はい、少々お待ちください
承認、できません
네, 확인하겠습니다
네, 취소해 주세요
好的,我看看
好,不要
可以,等一下
好的,取消
""".splitlines()

PLAIN = """\
yes, go for it
Yes: the budget allows it
Approved. Have fun in Berlin!
yes, no objections from my side
Approved, PO 4711
ok, no problem at all
ja, mach das
Ja, kein Problem, bitte buchen
oui, vas-y
Oui, pas de souci
si, adelante
sí, sin problema
sim, pode seguir
sì, nessun problema
akkoord, ga je gang
はい、問題ありません
네, 문제 없습니다
好的,没问题
👍 see you
""".splitlines()


@pytest.mark.parametrize("text", DOUBTED)
def test_a_yes_that_other_words_take_back_is_asked_about(text):
    """Many begin any mail with "ok": what they then say may be anything but a yes."""
    assert read_command(text).verdict is Verdict.UNCLEAR


@pytest.mark.parametrize("text", PLAIN)
def test_a_yes_with_kind_words_stays_one(text):
    """Words that deny nothing, among them "no problem", are the reason of the yes."""
    assert read_command(text).verdict is Verdict.APPROVE


@pytest.mark.parametrize(
    "below",
    [
        *("I don't think we should do this.", "Not this time.", "please cancel it", "never"),
        *("\nI do not want this.", "sorry, I meant no", "das geht nicht", "no way"),
        "We are out of the office until Monday",
    ],
)
def test_a_line_below_that_takes_a_yes_back_is_seen(below):
    """The first paragraph below a yes counts, on the next line or below a blank one."""
    assert read_command(f"Ok,\n{below}").verdict is Verdict.UNCLEAR


@pytest.mark.parametrize(
    "below",
    [
        "\nMara Lind\nExample Ltd, Company No. 4711",
        "\nLet me know if you have any questions.",
        "\nThis message is confidential. If you have received it and are not its recipient, you "
        "must not use it, and must not keep a copy of it. "
        + "It was not checked for viruses. "
        * 8,
        "The customer has waited long enough.",
        "\nInvoice received.",
    ],
)
def test_what_stands_below_most_answers_takes_nothing_back(below):
    """A signature, a courtesy and the long disclaimer of a firm leave a yes what it is."""
    assert read_command(f"Approved.\n{below}").verdict is Verdict.APPROVE
