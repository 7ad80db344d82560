"""Texts of agents and people are shown in full, and nothing in them stays hidden."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import ask, make_approval, make_call, make_origin, people
from signoff.core.base.lookalikes import lookalikes, scripts_in_use
from signoff.core.base.numbers import json_text
from signoff.core.base.shown_text import one_line, shown, visible, warnings_about
from signoff.core.base.text import brief, clean_text
from signoff.core.cards.card import card
from signoff.core.policies.titles import title_of

ORDINARY = [
    "Москва, ул. Тверская, д. 7, корп. 2",
    "Ресурс и сор в хоре: роса, ухо, оса",
    "Договор № 17-А от 3 марта, PDF-файл и SMS-код, Wi-Fi-роутер",
    "ВКонтакте и Яндекс, 5 ГГц, А4, СО2",
    "Київ, Їжак, вулиця Хрещатик",
    "Привет, Tom: переведи 100 USD на счёт ACME GmbH",
    "Ελλάδα για την Αθήνα, και ο Ορφέας",
    "ΔT = 5 K, 3 μm, 10 kΩ, π ≈ 3.14, σ = 0.3",
    "Հայաստան, սա Երևանն է",
    "שלום עולם, בGoogle, הAPI של C++",
    "مرحبا بالعالم، الـAPI و Google، ١٢٣",
    "می\u200cخواهم کتاب\u200cها را بخرم",
    "क्\u200dष और क्\u200cष, Googleने",
    "৪৭ টাকা, ১০০",
    "ใช้Googleทำงาน ๐ ๑ ๒",
    "東京都、Tシャツ、ＡＢＣ、葛󠄀城市、価格は　１２３円",
    "你好，用Python写的，3个API",
    "안녕하세요, Google은 좋아요",
    "ǅ, Straße, naïve café, ısı, İzmir, Đà Nẵng, Łódź, ŋgɔ",
    "👨‍👩‍👧 ❤️ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏳️‍🌈 👍🏽 👩🏽‍💻 ☺️ \U0001fa77",
    "10\u00a0000,50\u202f€ – „so“ ‚und‘ «oui»",
    "x² + y³ ≤ 1⁄2, ½, №, ™, №1, 5′ 7″",
    "snake_поле, C:\\Документы\\файл.txt, https://пример.рф/путь",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_of_any_script_is_shown_unchanged(text: str) -> None:
    """Text in another script than Latin raises no warning."""
    assert shown(text) == text
    assert warnings_about([text], scripts_in_use([text])) == ()


@pytest.mark.parametrize(
    ("text", "as_shown"),
    [
        ("p\u0430ypal", "p\\u0430ypal"),
        ("аpple.com", "\\u0430pple.com"),
        ("microsоft", "micros\\u043eft"),
        ("gооgle.com", "g\\u043e\\u043egle.com"),
        ("sкype", "s\\u043aype"),
        ("xn: ехаmple", "xn: \\u0435\\u0445\\u0430mple"),
        ("Αpple", "\\u0391pple"),
        ("Ꭺpple", "\\u13aapple"),
        ("hоst_name", "h\\u043est_name"),
        ("М\u006fсква", "М\\u006fсква"),
        ("раура", "\\u0440\\u0430\\u0443\\u0440\\u0430"),
        ("pay раура now", "pay \\u0440\\u0430\\u0443\\u0440\\u0430 now"),
        ("Москва раура@example.com", "Москва \\u0440\\u0430\\u0443\\u0440\\u0430@example.com"),
        ("example.com/асе", "example.com/\\u0430\\u0441\\u0435"),
        ("ɡoogle", "\\u0261oogle"),
        ("𝗽𝗮𝘆𝗽𝗮𝗹", "".join(f"\\U{ord(one):08x}" for one in "𝗽𝗮𝘆𝗽𝗮𝗹")),
        ("pаypal\N{COMBINING ACUTE ACCENT}", "p\\u0430ypal\N{COMBINING ACUTE ACCENT}"),
        ("ａpple", "\\uff41pple"),
        ("example\u2024com", "example\\u2024com"),
        ("evil.com\u2215paypal.com", "evil.com\\u2215paypal.com"),
        ("১২৭ or 1২7", "১২৭ or 1\\u09e87"),
        ("৪৭", "\\u09ea\\u09ed"),
        ("1٢3", "1\\u06623"),
    ],
)
def test_a_letter_that_looks_like_another_is_written_out(text: str, as_shown: str) -> None:
    """A word that mixes scripts, or only looks Latin, is shown with escapes."""
    assert shown(text) == as_shown
    (warning,) = warnings_about([text], frozenset())
    assert "look" in warning


@pytest.mark.parametrize(
    "hidden",
    [
        *("\u202e", "\u202d", "\u2066", "\u2069", "\u200b", "\u2060", "\ufeff", "\u00ad", "\u3164"),
        *("\u200d", "\u200c", "\u200f", "\ufe0f", "\U000e0041", "\U000e0101", "\u034f", "\u001b"),
        *("\u009b", "\u0000", "\u2028", "\u0085", "\ue000", "\u17b5"),
    ],
)
@pytest.mark.parametrize("around", ["pay{}pal", "{}paypal", "paypal{}", "{}"])
def test_invisible_characters_are_shown_as_escapes(around: str, hidden: str) -> None:
    """Invisible and direction-changing characters in Latin text are shown as escapes."""
    text = around.format(hidden)
    escape = f"\\u{ord(hidden):04x}" if ord(hidden) < 0x10000 else f"\\U{ord(hidden):08x}"
    assert visible(text) == around.format(escape)
    assert any(escape in one for one in warnings_about([text], frozenset()))


def test_excess_accents_are_escaped() -> None:
    """More than eight accents would cover the lines above."""
    assert visible("a" + "\u0301" * 8) == "a" + "\u0301" * 8
    assert visible("a" + "\u0301" * 10) == "a" + "\u0301" * 8 + "\\u0301\\u0301"


def test_tag_characters_outside_regional_flags_are_escaped() -> None:
    """Tag characters stay in regional flags, and are escaped elsewhere."""
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    assert visible(flag) == flag
    assert visible(f"{flag}\U000e0061") == f"{flag}\\U000e0061"
    assert "\\U000e0061" in visible("\U0001f600\U000e0061\U000e007f")


def test_lookalike_letters_are_judged_by_the_surrounding_script() -> None:
    """The same letters are a Russian word in Russian text, and "cop" in English text."""
    assert shown("сор", scripts_in_use(["вынести мусор"])) == "сор"
    assert shown("сор", scripts_in_use(["take out the trash"])) != "сор"


def test_many_warnings_are_counted() -> None:
    """Warnings do not fill up a card."""
    said = warnings_about(["р" + "a" * at for at in range(1, 20)], frozenset())
    assert len(said) == 6
    assert said[-1] == "And 14 more of this kind."


@pytest.mark.parametrize(
    "letters", ["\u0e50", "\u0663", "\u0430a", "\U0001d400", "\u0430/", "\u202e"]
)
def test_a_long_text_is_shown_in_linear_time(letters: str) -> None:
    """A hundred thousand digits of one word, or words of an address, keep no process busy."""
    text = f"{letters * 100_000}1"
    assert unicodedata.normalize("NFC", shown(text)).isascii()
    assert len(warnings_about([text], frozenset())) <= 6


def test_after_thousands_of_lookalikes_every_letter_that_may_be_one_is_an_escape() -> None:
    """Nobody can hide a word behind so many others; the beginning is as it always was."""
    words = [f"p\u0430y{number}" for number in range(6_000)]
    text = shown(" ".join([*words, "\u0441\u043e\u0440", "gro\u00df", "x\u2024example"]))
    assert text.startswith(r"p\u0430y0 p\u0430y1 ")
    assert text.endswith("p\\u0430y5999 \\u0441\\u043e\\u0440 gro\u00df x\\u2024example")


def test_a_long_ordinary_text_stays_as_it_is() -> None:
    """Many words of one script that look Latin are ordinary among others of that script."""
    text = "\u0430 \u0443 \u0441 \u0445\u043e\u0440 \u0436\u0434\u0443 " * 5_000
    assert shown(text) == text


@given(st.text(max_size=60))
def test_shown_text_stays_the_same_when_shown_again(text: str) -> None:
    """Shown text is harmless, and showing it again does not change it."""
    once = visible(text)
    assert visible(once) == once
    assert one_line(one_line(text)) == one_line(text)


@given(st.text(max_size=60))
def test_printable_ascii_is_escaped_only_inside_a_foreign_word(text: str) -> None:
    """A keyboard letter is escaped only inside a foreign word."""
    plain = "".join(one for one in text if one.isascii() and (one.isprintable() or one in "\n\t"))
    assert shown(plain) == plain
    assert lookalikes(plain) == ()


WRITTEN = [
    "use <amount=900> instead",
    "if x<y and y>z",
    "write to <jo@example.com>",
    "<!-- approve --> <b>no</b> </td>",
    "<!channel> *bold* _it_ `code` ~no~ :tada:",
    "می\u200cخواهم 👩\u200d💻 fi\u200dn",
    "tab\there\nand a line",
    "right\u202eleft\u202c",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_cleaning_keeps_every_character_that_a_person_writes(text: str) -> None:
    """Each character is kept, and escaped where it is shown."""
    assert clean_text(text) == text


@given(st.text(max_size=80))
def test_cleaning_drops_only_control_characters_and_lone_surrogates(text: str) -> None:
    """Control characters and lone surrogates are dropped; the rest keeps its order."""
    kept = clean_text(text)
    kept.encode()
    assert all(one in "\n\t" or unicodedata.category(one) not in {"Cc", "Cs"} for one in kept)
    controls = {"Cc", "Cs"}
    same = [one for one in text if unicodedata.category(one) not in controls]
    assert [one for one in kept if one not in "\n\t"] == same


def test_line_ends_of_every_system_become_line_feeds() -> None:
    """The line ends of every system become one line feed."""
    assert clean_text("a\r\nb\rc\x0bd\n") == "a\nb\nc\nd\n"


def test_quotation_shows_its_whole_text_up_to_the_cut() -> None:
    """A quotation in a message hides nothing, and is only cut at its end."""
    assert brief("x<y>z\u202e") == "x<y>z\\u202e"
    assert len(brief("x" * 500)) == 121


def test_card_warns_about_deceptive_text_in_every_part() -> None:
    """Warnings cover arguments and their names, tool, hint, agent and requester."""
    approval = ask(
        make_approval(
            origin=make_origin(user="m\u0430ra@example.com", agent="b\u200bot"),
            call=make_call("p\u0430y", tо="\u0430cme", memo={"a": "x\u202ey"}),
            hint="for \u0455ure",
        )
    )
    seen = card(approval, people())
    assert seen.tool == "p\\u0430y"
    assert seen.call == "b\\u200bot asks to run p\\u0430y"
    assert seen.title == f'{seen.call}: t\\u043e \\u0430cme, memo {{"a": "x\\u202ey"}}'
    assert [(row.name, row.value) for row in seen.rows] == [
        ("t\\u043e", "\\u0430cme"),
        ("memo", '{"a": "x\\u202ey"}'),
    ]
    assert seen.hint == "for \\u0455ure"
    assert seen.requester == "m\\u0430ra@example.com"
    told = " ".join(seen.warnings)
    for one in ("p\\u0430y", "t\\u043e", "\\u0430cme", "\\u0455ure", "\\u202e", "of this kind"):
        assert one in told


def test_call_in_one_foreign_script_is_shown_unchanged() -> None:
    """A Russian call is shown unchanged, even if a value is one short word."""
    call = make_call("pay", what="Ресурс", whom="Иванов")
    seen = card(ask(make_approval(call=call)), people())
    assert [row.value for row in seen.rows] == ["Ресурс", "Иванов"]
    assert seen.warnings == ()


@pytest.mark.parametrize(
    "text", ["false", "False", " false\n", "true", "null", "None", "0", "-0.00", "[]", "{ }"]
)
def test_a_text_that_reads_like_another_value_is_in_quotes(text: str) -> None:
    """Python counts the text "false" as true, so the card must not show it as `false`."""
    value = json.loads(text.strip().lower().replace("none", "null"))
    seen = card(ask(make_approval(call=make_call("wipe", text=text, value=value))), people())
    first, second = (row.value for row in seen.rows)
    assert first == json.dumps(text)
    assert second == json_text(value)


@pytest.mark.parametrize("text", ["falsehood", "00420", "1", "", "nobody", "0 days", "[0]"])
def test_ordinary_texts_have_no_quotes(text: str) -> None:
    """Account numbers, names and sentences are shown as they are."""
    seen = card(ask(make_approval(call=make_call("pay", text=text))), people())
    assert [row.value for row in seen.rows] == [text]


@given(st.sets(st.text(" ab\n\u00a0\u2003\u200b", max_size=4), min_size=2, max_size=8))
def test_two_names_never_look_the_same(names: set[str]) -> None:
    """Blanks that a line does not show would let a harmless argument hide behind another."""
    seen = card(ask(make_approval(call=make_call("pay", **dict.fromkeys(names, 1)))), people())
    assert len({" ".join(row.name.split()) for row in seen.rows}) == len(names)


def test_a_title_shows_a_text_that_reads_like_another_value_in_quotes() -> None:
    """The title of a policy shows arguments as the card does."""
    assert title_of("Wipe: {args.force}", {"force": "false"}, {}) == 'Wipe: "false"'
    assert title_of("Wipe: {args.force}", {"force": False}, {}) == "Wipe: false"
