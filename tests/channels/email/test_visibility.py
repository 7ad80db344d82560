"""The visible text of a page: hidden text is not read, and uncertain text gets a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.channels.email.parsing.markup import lines_of_html
from signoff.channels.email.parsing.quoting import HIDDEN, Reply, read_reply

GONE = (
    '<div style="display:none">{}</div>',
    '<span style="DISPLAY : NONE ! important">{}</span>',
    '<span style="display:none;display:nonsense;display:none">{}</span>',
    '<p style="color:red;visibility: hidden">{}</p>',
    '<table style="visibility:collapse"><tr><td>{}</table>',
    '<div style="visibility:hidden"><b style="visibility:inherit">{}</b></div>',
    '<div style="display:none"><p style="display:block">{}</p></div>',
    "<p hidden>{}</p>",
    '<p hidden="until-found">{}</p>',
    "<template>{}</template>",
    "<title>{}</title>",
    "<style>{}</style>",
    "<script>{}</script>",
    "<!-- {} -->",
    "<s>{}</s>",
    "<strike>{}</strike>",
    "<del>{}</del>",
    '<span style="text-decoration:underline line-through">{}</span>',
)
"""Ways to hide or strike text that every program supports."""

UNSURE = (
    # Colors.
    '<span style="color:#fefefe">{}</span>',
    '<span style="color:rgb(250,250,250)">{}</span>',
    '<span style="color:rgb(98% 98% 98%)">{}</span>',
    '<span style="color:hsl(0,0%,98%)">{}</span>',
    '<span style="color:WHITE">{}</span>',
    '<span style="color:#fff;color:nocolor">{}</span>',
    '<span style="color:#fff !important;color:#000">{}</span>',
    '<span style="color:#123;background:#123">{}</span>',
    '<span style="background-color:black">{}</span>',
    '<table bgcolor="#000000"><tr><td>{}</table>',
    '<font color="#FDFDFD">{}</font>',
    "<font color=white>{}</font>",
    '<div style="color:white"><p><b>{}</b></p></div>',
    '<span style="color:transparent">{}</span>',
    '<span style="color:rgba(0,0,0,.02)">{}</span>',
    '<span style="color:#0000">{}</span>',
    '<span style="-webkit-text-fill-color:transparent">{}</span>',
    '<span style="color:lab(99% 0 0)">{}</span>',
    '<div style="background:linear-gradient(#000,#000)">{}</div>',
    '<div style="background:url(data:image/png;base64,AAAA)">{}</div>',
    '<td background="x.png">{}</td>',
    # Size and place.
    '<span style="font-size:1px">{}</span>',
    '<span style="font-size:.05em">{}</span>',
    '<span style="font-size:3%">{}</span>',
    '<span style="font:0/0 a">{}</span>',
    '<span style="font:1px Arial">{}</span>',
    '<span style="font-size:calc(1px * 0)">{}</span>',
    f"{'<small>' * 9}{{}}{'</small>' * 9}",
    '<span style="zoom:0.01">{}</span>',
    '<span style="zoom:1%">{}</span>',
    '<div style="line-height:0">{}</div>',
    '<div style="letter-spacing:-1em">{}</div>',
    '<div style="text-indent:-9999px">{}</div>',
    '<div style="text-indent:-100%">{}</div>',
    '<div style="margin-left:-9999px">{}</div>',
    '<div style="position:absolute;left:-9999px">{}</div>',
    '<div style="position:relative;left:-5000px">{}</div>',
    '<div style="position:fixed">{}</div>',
    '<div style="transform:scale(0)">{}</div>',
    '<div style="transform:rotateY(90deg)">{}</div>',
    '<div style="transform:translateX(-2000px)">{}</div>',
    '<div style="scale:0">{}</div>',
    '<div style="translate:-2000px">{}</div>',
    '<div style="clip-path:inset(100%)">{}</div>',
    '<div style="clip:rect(0,0,0,0)">{}</div>',
    '<div style="height:0;overflow:hidden">{}</div>',
    '<div style="max-height:1px;overflow:hidden">{}</div>',
    '<div style="overflow:hidden;height:10px"><br><br>{}</div>',
    '<div style="max-width:0;overflow:hidden;white-space:nowrap">{}</div>',
    # Effects.
    '<div style="opacity:.01">{}</div>',
    '<div style="opacity:5%">{}</div>',
    f"{'<div style=opacity:.5>' * 3}{{}}{'</div>' * 3}",
    '<div style="filter:opacity(0)">{}</div>',
    '<div style="filter:alpha(opacity=0)">{}</div>',
    '<div style="filter:blur(20px)">{}</div>',
    '<div style="mask:linear-gradient(transparent,transparent)">{}</div>',
    '<div style="mix-blend-mode:screen">{}</div>',
    '<div style="content-visibility:hidden">{}</div>',
    '<div style="animation:x 0s forwards">{}</div>',
    '<div style="-webkit-text-security:disc">{}</div>',
    '<div style="mso-hide:all">{}</div>',
    '<div style="display:table-column">{}</div>',
    '<div style="font-family:Wingdings">{}</div>',
    # Order.
    '<bdo dir="rtl">{}</bdo>',
    '<span style="unicode-bidi:bidi-override;direction:rtl">{}</span>',
    "<span>&#x202e;{}&#x202c;</span>",
    '<div style="display:flex;flex-direction:row-reverse">{}</div>',
    '<div style="writing-mode:vertical-rl">{}</div>',
    # Forms that programs may read differently.
    '<div style="display:n\\6fne">{}</div>',
    '<div style="dis\\70lay:none">{}</div>',
    '<div style="display:/**/none">{}</div>',
    '<div style="display/**/:none">{}</div>',
    '<div style="display:var(--x, none)">{}</div>',
    '<div style="--x:none"><p style="display:var(--x)">{}</p></div>',
    '<p hidden style="display:block">{}</p>',
    # Style sheets.
    "<style>.x{{display:none}}</style><p class=x>{}</p>",
    "<style>#x{{display:none}}</style><p id=x>{}</p>",
    "<style>p.x b{{display:none}}</style><p class=x><b>{}</b></p>",
    "<style>.x>b{{color:#fff}}</style><p class=x><b>{}</b></p>",
    "<style>.a .b .c{{font-size:0}}</style><div class=a><div class=b><p class=c>{}</p></div></div>",
    "<style>p{{color:#000}}p{{color:#fff}}</style><p>{}</p>",
    "<style>*{{color:white}}</style><p>{}</p>",
    "<style>html{{font-size:0}}</style><p>{}</p>",
    "<style>[data-x]{{display:none}}</style><p data-x=1>{}</p>",
    "<style>p:nth-child(2){{display:none}}</style><div><p></p><p>{}</p></div>",
    "<style>p:not(.y){{display:none}}</style><p>{}</p>",
    "<style>:is(p,div){{display:none}}</style><p>{}</p>",
    "<style>b+p{{display:none}}</style><b></b><p>{}</p>",
    "<style>#c:checked~p{{display:none}}</style><input type=checkbox id=c checked><p>{}</p>",
    "<style>p::first-line{{color:#fff}}</style><p>{}</p>",
    '<style>.x::after{{content:"{}"}}</style><p class=x>thanks</p>',
    "<style>@media screen{{.x{{display:none}}}}</style><p class=x>{}</p>",
    "<style>@media (min-width:1px){{.x{{display:none}}}}</style><p class=x>{}</p>",
    "<style>@supports (display:grid){{p{{display:none}}}}</style><p>{}</p>",
    "<style>@layer a{{p{{display:none}}}}</style><p>{}</p>",
    "<style media=screen>.x{{display:none}}</style><p class=x>{}</p>",
    "<style><!-- .x{{display:none}} --></style><p class=x>{}</p>",
    "<style>/* a */ .x /* b */ {{ d\\69splay : none }}</style><p class=x>{}</p>",
    "<style>:root{{--c:#fff}} .x{{color:var(--c)}}</style><p class=x>{}</p>",
    '<style>@import url("https://x.example/a.css");</style><p>{}</p>',
    '<link rel=stylesheet href="data:text/css,p{{display:none}}"><p>{}</p>',
    # Elements that some programs show and others do not.
    "<details><summary>more</summary>{}</details>",
    "<details>{}</details>",
    "<dialog>{}</dialog>",
    "<noscript>{}</noscript>",
    "<textarea>{}</textarea>",
    "<button>{}</button>",
    "<select><option>{}</select>",
    '<input value="{}">',
    "<svg><text>{}</text></svg>",
    "<object>{}</object>",
    "<iframe>{}</iframe>",
    "<video>{}</video>",
    "<meter>{}</meter>",
    "<xmp>{}</xmp>",
    "<!--[if mso]>{}<![endif]-->",
)
"""Ways that depend on the program or have an uncertain effect."""

SEEN = (
    "<details open>{}</details>",
    "<details><summary>{}</summary></details>",
    '<div style="background-color:#000"><p style="color:#fff">{}</p></div>',
    '<body style="background:#222;color:#ddd"><p>{}</p></body>',
    '<p style="color:rgb(255,255,255)!important;background-color:rgb(41,41,41)">{}</p>',
    '<p style="color:#999">{}</p>',
    '<p style="color:windowtext;background:window">{}</p>',
    '<p style="color:var(--unset)">{}</p>',
    '<p style="display:none;display:block">{}</p>',
    '<p style="text-decoration:line-through;text-decoration:none">{}</p>',
    '<s style="text-decoration:none">{}</s>',
    '<div style="visibility:hidden"><b style="visibility:visible">{}</b></div>',
    "<p class=MsoListParagraph style='margin-left:36.0pt;text-indent:-18.0pt'>{}</p>",
    (
        "<style>p.MsoListParagraph{{margin-left:36pt}}</style><p class=MsoListParagraph "
        "style='text-indent:-18.0pt'>{}</p>"
    ),
    "<p style='margin-left:-5.4pt'>{}</p>",
    '<p style="position:relative;overflow:auto;zoom:1;opacity:1;filter:none">{}</p>',
    '<p style="font:7.0pt &quot;Times New Roman&quot;">{}</p>',
    '<p style="font:bold 12px/1.2 Arial">{}</p>',
    '<p style="line-height:107%;letter-spacing:-.1pt">{}</p>',
    '<p style="max-width:600px;overflow:hidden">{}</p>',
    '<p style="background:transparent none repeat scroll 0% 0%">{}</p>',
    "<style>.x{{display:none}}</style><p>{}</p>",
    "<style>p.x{{display:none}}</style><div class=x>{}</div>",
    "<style>a:hover{{display:none}}</style><a href=x>{}</a>",
    "<style>@media print{{p{{display:none}}}}</style><p>{}</p>",
    "<style>@media (prefers-color-scheme:dark){{p{{color:#fff}}}}</style><p>{}</p>",
    "<style>@import url('https://fonts.example/css?family=Lato');</style><p>{}</p>",
    '<style>p:before{{content:""}}</style><p>{}</p>',
    "<style>v\\:* {{behavior:url(#default#VML);}} @list l0 {{mso-list-id:1;}}</style><p>{}</p>",
    "<marquee>{}</marquee>",
    "<center><font size=1>{}</font></center>",
    '<div dir="rtl">{}</div>',
)
"""Styles that resemble these, and show the text."""


def read(page: str) -> Reply:
    """Return what the author of a page wrote."""
    return read_reply(lines_of_html(page))


@pytest.mark.parametrize("way", GONE)
def test_hidden_text_is_not_read(way: str) -> None:
    """Hidden text is not an answer, not a part of one, and does not cause doubt."""
    assert read(way.format("approve")) == Reply("", "")
    page = f"<p>re{way.format('only half')}ject</p>" if way[:2] in ("<s", "<!") else None
    assert read(f"<p>approve</p>{way.format('only half')}").answer == "approve"
    assert read(f"<p>approve</p>{way.format('only half')}").doubt == ""
    assert page is None or read(page).answer == "reject"


@pytest.mark.parametrize("way", UNSURE)
def test_text_of_uncertain_visibility_causes_doubt(way: str) -> None:
    """As an answer or a part of one, it could change the meaning of a mail."""
    for words, page in (
        ("approve", "<p>Thanks</p>{}"),
        ("but only half", "<p>approve</p>{}"),
        ("but only half", "{}<p>approve</p>"),
        ("but only half", "<p>approve {}</p>"),
    ):
        assert read(page.format(way.format(words))).doubt == HIDDEN, page


@pytest.mark.parametrize("way", UNSURE)
def test_hidden_text_below_a_quotation_causes_no_doubt(way: str) -> None:
    """The quoted mail is not the person's, visible or not."""
    for quote in (
        "<blockquote type=cite>{}</blockquote>",
        "<div>On 2 Mar 2026 at 10:00, Signoff wrote:</div><div>{}</div>",
        '<div class="gmail_quote">{}</div>',
    ):
        page = f"<p>no, too dear</p>{quote.format('<i>x</i>')}"
        assert (read(page).answer, read(page).doubt) == ("no, too dear", "")
        body = way.partition("<style>")[0] if "<style" in way else way
        if body and not way.startswith("<link"):
            reply = read(f"<p>no, too dear</p>{quote.format(body.format('approve'))}")
            assert (reply.answer, reply.doubt) == ("no, too dear", "")


@pytest.mark.parametrize(
    "page",
    [
        *("<s><p>approve</p></s>", "<strike><p>approve</p></strike>", "<s><p>approve</p>"),
        *("<p><s>only half</p><p>approve</p>", "<div><s>no</div><div>approve</div>"),
        *('<font color="white"><center>approve</center></font>',),
        *('<h1 style="display:none"><p>approve</p></h1>',),
        *('<b style="font-size:0"><p>approve</p></b>',),
        *('<a style="display:none"><table><tr><td>approve</table></a>',),
        *("<address hidden><ul><li>approve</ul></address>",),
    ],
)
def test_hiding_elements_that_the_parser_ends_early_cause_doubt(page: str) -> None:
    """Browsers hide or strike text beyond the place where the parser ends such an element."""
    assert read(page).doubt == HIDDEN
    assert read(f"<p>Thanks</p>{page}").doubt == HIDDEN
    assert read(f"<p>Thanks</p>{'</x>' * 150}{page}").doubt == HIDDEN
    assert read(f"<p>approve</p>{'</x>' * 150}").doubt == ""


@pytest.mark.parametrize(
    "page",
    [
        *(
            "<p><s>only half</s></p><p>approve</p>",
            "<b><p>approve</p></b>",
            "<u><div>approve</div></u>",
        ),
        *("<p>approve</p></s>", "<p><b>approve</p><p>Mara</p>", "<o:p>approve</p></o:p>"),
        *("<font color=blue><center>approve</center></font>", "<s>no</s><p>approve</p>"),
    ],
)
def test_other_elements_that_are_not_nested_well_cause_no_doubt(page: str) -> None:
    """Mail programs often write such pages, and their text is visible."""
    assert read(page).doubt == ""
    assert read(page).answer.startswith("approve")


@pytest.mark.parametrize("way", SEEN)
def test_ordinary_styles_cause_no_doubt(way: str) -> None:
    """Ordinary styles cause no doubt."""
    reply = read(way.format("approve"))
    assert (reply.answer, reply.doubt) == ("approve", "")


@pytest.mark.parametrize("nothing", ["", " ", "&nbsp;", "&#8203;", "ᐧ", "—", "***", "<br>"])
@pytest.mark.parametrize("way", ['<p style="font-size:0">{}</p>', "<noscript>{}</noscript>"])
def test_hidden_spaces_rules_and_tracking_marks_are_not_words(way: str, nothing: str) -> None:
    """Spaces, rules and tracking marks are not words."""
    assert read(f"<p>approve</p>{way.format(nothing)}").doubt == ""


def test_too_many_styles_are_not_guessed() -> None:
    """Beyond the limit for style sheets, no text counts as visible."""
    for sheet in ("p.x{color:red}" * 5_000, "a b c d{color:red}" * 600, "@media{" * 9):
        page = f"<style>{sheet}</style><p>approve</p>"
        assert read(page).doubt == HIDDEN
    styled = "".join(f"<p style='color:#{at:06x}'>x</p>" for at in range(600))
    assert read(f"{styled}<p style='color:#123456'>approve</p>").doubt


styles = st.sampled_from(
    [
        *("display:none", "color:#fff", "font-size:0", "opacity:0", "color:#333", "margin:0"),
        *("visibility:hidden", "visibility:visible", "background:#fff", "position:absolute"),
        *("display:block", "transform:none", "text-indent:-99em", "width:1px;overflow:hidden"),
        *("border-left:1px solid", "border:1px solid", "}", "/*", "\\", "'", "(", "a:b", ";;"),
    ]
)


@given(st.lists(st.lists(styles, max_size=4).map(";".join), max_size=5), st.booleans())
def test_hidden_words_never_change_an_answer_without_doubt(ways: list[str], inside: bool) -> None:
    """With any nested styles, an answer without doubt has exactly the visible words."""
    opened = "".join(f'<div style="{way}">' for way in ways)
    hidden = f"{opened}only half{'</div>' * len(ways)}"
    page = f"<div>approve {hidden}</div>" if inside else f"<p>approve</p>{hidden}"
    reply = read(page)
    words = reply.answer.split()
    assert reply.doubt or words in (["approve"], ["approve", "only", "half"])
