"""Replies of common mail programs, each as a plain text and as a page: a table without tests.

They follow mails that these programs have sent: the style sheets, wrappers, signatures and
comments are theirs, shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from channels.email.clients import WHO, block, marked

ON = f"On Mon, Mar 2, 2026 at 10:00 AM {WHO} wrote:"
ON_MARKED_UP = (
    'On Mon, Mar 2, 2026 at 10:00 AM Signoff &lt;<a href="mailto:approvals@signoff.example">'
    "approvals@signoff.example</a>&gt; wrote:"
)


class Program(NamedTuple):
    """A mail program.

    Attributes:
        plain: Makes the plain text of a reply from the person's lines and the mail it answers; ""
            if it sends none.
        page: Makes the page of the reply.
    """

    name: str
    plain: Callable[[Sequence[str], str], str]
    page: Callable[[Sequence[str], str], str]


def _words(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _divs(lines: Sequence[str], attributes: str = "") -> str:
    return "".join(f"<div{attributes}>{escape(line) if line else '<br>'}</div>" for line in lines)


def _breaks(lines: Sequence[str]) -> str:
    return "<br>".join(map(escape, lines))


def _above(
    heading: str, quote: Callable[[str], str] = marked
) -> Callable[[Sequence[str], str], str]:
    return lambda lines, mail: f"{_words(lines)}\n\n{heading}\n\n{quote(mail)}"


def _none(lines: Sequence[str], mail: str) -> str:
    return ""


GMAIL_QUOTE = (
    '<br><div class="gmail_quote gmail_quote_container"><div dir="ltr" class="gmail_attr">{on}<br>'
    '</div><blockquote class="gmail_quote" style="margin:0px 0px 0px 0.8ex;border-left:1px solid '
    'rgb(204,204,204);padding-left:1ex">{mail}</blockquote></div>'
)
WORD_SHEET = """<style><!--
/* Font Definitions */
@font-face
	{font-family:"Cambria Math";
	panose-1:2 4 5 3 5 4 6 3 2 4;}
@font-face
	{font-family:Calibri;
	panose-1:2 15 5 2 2 2 4 3 2 4;}
/* Style Definitions */
p.MsoNormal, li.MsoNormal, div.MsoNormal
	{margin:0cm;
	font-size:11.0pt;
	font-family:"Calibri",sans-serif;
	mso-ligatures:standardcontextual;
	mso-fareast-language:EN-US;}
a:link, span.MsoHyperlink
	{mso-style-priority:99;
	color:#0563C1;
	text-decoration:underline;}
p.MsoListParagraph, li.MsoListParagraph, div.MsoListParagraph
	{mso-style-priority:34;
	margin-top:0cm;
	margin-right:0cm;
	margin-bottom:0cm;
	margin-left:36.0pt;
	font-size:11.0pt;}
span.EmailStyle18
	{mso-style-type:personal-reply;
	font-family:"Calibri",sans-serif;
	color:windowtext;}
.MsoChpDefault
	{mso-style-type:export-only;
	font-size:10.0pt;}
@page WordSection1
	{size:612.0pt 792.0pt;
	margin:70.85pt 70.85pt 2.0cm 70.85pt;}
div.WordSection1
	{page:WordSection1;}
/* List Definitions */
@list l0
	{mso-list-id:1234567;
	mso-list-type:hybrid;}
@list l0:level1
	{mso-level-number-format:bullet;
	mso-level-text:\\F0B7;
	font-family:Symbol;}
--></style>"""
WORD_HEAD = (
    '<html xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office" '
    'xmlns:w="urn:schemas-microsoft-com:office:word" xmlns="http://www.w3.org/TR/REC-html40"><head>'
    '<meta http-equiv=Content-Type content="text/html; charset=utf-8"><meta name=Generator '
    'content="Microsoft Word 15 (filtered medium)"><!--[if !mso]><style>v\\:* '
    "{behavior:url(#default#VML);}\no\\:* {behavior:url(#default#VML);}</style><![endif]-->"
    f'{WORD_SHEET}<!--[if gte mso 9]><xml><o:shapedefaults v:ext="edit" spidmax="1026" /></xml>'
    '<![endif]--></head><body lang=DE link="#0563C1" vlink="#954F72" style="word-wrap:break-word">'
    "<div class=WordSection1>"
)
WORD_QUOTE = (
    "<p class=MsoNormal><o:p>&nbsp;</o:p></p><div style='border:none;border-left:solid blue 1.5pt;"
    "padding:0cm 0cm 0cm 4.0pt'><div><div style='border:none;border-top:solid #E1E1E1 1.0pt;padding:"
    "3.0pt 0cm 0cm 0cm'><p class=MsoNormal><b><span style='mso-fareast-language:DE'>Von:</span></b>"
    "<span style='mso-fareast-language:DE'> Signoff &lt;approvals@signoff.example&gt; <br><b>"
    "Gesendet:</b> Montag, 2. März 2026 10:00<br><b>An:</b> Lind, Mara &lt;mara@example.com&gt;<br>"
    "<b>Betreff:</b> Approval needed<o:p></o:p></span></p></div></div><p class=MsoNormal><o:p>&nbsp;"
    "</o:p></p>{mail}</div></div></body></html>"
)
OWA_HEAD = (
    '<html><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"><style '
    'type="text/css" style="display:none;"> P {margin-top:0;margin-bottom:0;} </style></head><body '
    'dir="ltr">'
)
OWA_LINE = (
    ' class="elementToProof" style="font-family: Aptos, Aptos_EmbeddedFont, Calibri, Helvetica, '
    'sans-serif; font-size: 12pt; color: rgb(0, 0, 0);"'
)
OWA_QUOTE = (
    '<div id="appendonsend"></div><hr style="display:inline-block;width:98%" tabindex="-1"><div '
    'id="divRplyFwdMsg" dir="ltr"><font face="Calibri, sans-serif" style="font-size:11pt" '
    'color="#000000"><b>From:</b> Signoff &lt;approvals@signoff.example&gt;<br><b>Sent:</b> Monday,'
    " March 2, 2026 10:00 AM<br><b>To:</b> Mara Lind &lt;mara@example.com&gt;<br><b>Subject:</b> "
    "Approval needed</font><div>&nbsp;</div></div>{mail}</body></html>"
)
OUTLOOK_MOBILE = (
    '<html><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"></head><body '
    'dir="auto" style="overflow-wrap: break-word; -webkit-nbsp-mode: space; line-break: '
    'after-white-space;">{own}<div id="ms-outlook-mobile-body-separator-line" style="direction: ltr;'
    ' font-family: Aptos; font-size: 12pt;"><br></div><div id="ms-outlook-mobile-signature" style='
    '"font-family: Aptos; font-size: 12pt;">Get <a href="https://aka.ms/o0ukef">Outlook for iOS</a>'
    '</div><div id="mail-editor-reference-message-container"><div class='
    '"ms-outlook-mobile-reference-message skipProofing"><meta http-equiv="Content-Type"><div '
    "style='padding: 3pt 0in 0in; border-width: 1pt medium medium; border-style: solid none none; "
    "border-color: rgb(181, 196, 223) currentcolor currentcolor;'><b>From: </b>Signoff &lt;a@x.example"
    "&gt;<br><b>Date: </b>Monday, 2 March 2026 at 10:00<br><b>To: </b>Mara<br><b>Subject: </b>Approval"
    "<br></div>{mail}</div></div></body></html>"
)
APPLE_STYLE = "overflow-wrap: break-word; -webkit-nbsp-mode: space; line-break: after-white-space;"
THUNDERBIRD = (
    '<!DOCTYPE html><html><head><meta http-equiv="Content-Type" content="text/html; charset=UTF-8">'
    '</head><body text="#000000" bgcolor="#f9f9fa">{own}<div class="moz-cite-prefix">Am 02.03.26 um '
    '10:00 schrieb Signoff:<br></div><blockquote type="cite" cite="mid:card@signoff.example">'
    '<meta http-equiv="Content-Type"><style>.preheader {{ display: none }}</style>{mail}'
    "</blockquote></body></html>"
)
PROTON_LINE = (
    ' style="font-family: Arial, sans-serif; font-size: 14px; color: rgb(0, 0, 0); background-color:'
    ' rgb(255, 255, 255);"'
)
SAMSUNG = (
    '<html><head><meta http-equiv="Content-Type" content="text/html; charset=UTF-8"></head><body '
    'dir="auto">{own}<div dir="auto"><br></div><div id="composer_signature" dir="auto"><div style='
    '"font-size:12px;color:#575757" dir="auto">Sent from my Galaxy</div></div><div dir="auto"><br>'
    '</div><div><br></div><div align="left" dir="auto" style="font-size:100%;color:#000000"><div>'
    "-------- Original message --------</div><div>From: Signoff &lt;a@x.example&gt; </div><div>Date:"
    " 02/03/2026  10:00  (GMT+01:00) </div><div>To: mara@example.com </div><div>Subject: Approval "
    "</div><div><br></div></div>{mail}</body></html>"
)
GMX_QUOTE = (
    '<div name="quote" style="margin:10px 5px 5px 10px; padding: 10px 0 10px 10px; border-left:2px '
    'solid #C3D9E5; word-wrap: break-word;"><div style="margin:0 0 10px 0;"><b>Gesendet:</b> Montag, '
    "2. März 2026 um 10:00 Uhr<br/><b>Von:</b> Signoff &lt;a@x.example&gt;<br/><b>An:</b> "
    'mara@example.com<br/><b>Betreff:</b> Approval needed</div><div name="quoted-content">{mail}'
    "</div></div>"
)
NOTES_QUOTE = (
    '<br><br><img width="16" height="16" src="cid:1" border="0" alt="Inactive hide details for '
    'Signoff ---02.03.2026 10:00:15---To say yes: approve"><font size="2" color="#424282">Signoff '
    '---02.03.2026 10:00:15---To say yes: approve</font><br><br><font size="1" color="#5F5F5F">Von: '
    '</font><font size="1">Signoff &lt;a@x.example&gt;</font><br><font size="1" color="#5F5F5F">An: '
    '</font><font size="1">mara@example.com</font><br><font size="1" color="#5F5F5F">Datum: </font>'
    '<font size="1">02.03.2026 10:00</font><br><font size="1" color="#5F5F5F">Betreff: </font><font '
    'size="1">Approval needed</font><br><hr width="100%" size="2" align="left" noshade style="color:'
    '#8091A5; "><br>{mail}'
)
GROUPWISE_LINE = (
    "&gt;&gt;&gt; Signoff &lt;approvals@signoff.example&gt; 3/2/2026 10:00 AM &gt;&gt;&gt;"
)
YAHOO = (
    '<html><head></head><body><div class="ydpa1b2c3yahoo-style-wrap" style="font-family:Helvetica '
    'Neue, Helvetica, Arial, sans-serif;font-size:16px;"><div></div>{own}</div><div id='
    '"ydp9f8e7yahoo_quoted_123" class="yahoo_quoted"><div style="font-family:\'Helvetica Neue\', '
    'Helvetica, Arial, sans-serif;font-size:13px;color:#26282a;"><div>On Monday, March 2, 2026 at '
    "10:00:00 AM GMT+1, Signoff &lt;a@x.example&gt; wrote:</div><div><br></div>{mail}</div></div>"
    "</body></html>"
)
FOXMAIL = (
    '<html><head><meta http-equiv="content-type" content="text/html; charset=UTF-8"><style>body {{ '
    "line-height: 1.5; }}blockquote {{ margin-top: 0px; margin-bottom: 0px; margin-left: 0.5em; }}"
    "body {{ font-size: 14px; font-family: &quot;Microsoft YaHei UI&quot;; color: rgb(0, 0, 0); "
    "line-height: 1.5; }}</style></head><body><div><span></span>{own}</div><div><br></div><hr style="
    '"width: 210px; height: 1px;" color="#b5c4df" size="1" align="left"><div><span><div style="MARGIN:'
    ' 10px; FONT-FAMILY: verdana; FONT-SIZE: 10pt"><div>Mara Lind</div></div></span></div><blockquote '
    'style="margin-Top: 0px; margin-Bottom: 0px; margin-Left: 0.5em"><div>&nbsp;</div><div style='
    '"border:none;border-top:solid #B5C4DF 1.0pt;padding:3.0pt 0cm 0cm 0cm"><div style="PADDING-RIGHT:'
    ' 8px; PADDING-LEFT: 8px; FONT-SIZE: 12px;BACKGROUND: #efefef; color:#000000;"><div><b>发件人：</b>'
    "&nbsp;Signoff</div><div><b>发送时间：</b>&nbsp;2026-03-02&nbsp;10:00</div><div><b>收件人：</b>&nbsp;"
    "mara</div><div><b>主题：</b>&nbsp;Approval</div></div></div><div>{mail}</div></blockquote></body>"
)
QQ = (
    '<div>{own}</div><div><br></div><div style="font-size: 12px;font-family: Arial Narrow;padding:2px '
    '0 2px 0;">------------------&nbsp;原始邮件&nbsp;------------------</div><div style="font-size: '
    '12px;background:#efefef;padding:8px;"><div><b>发件人:</b> "Signoff" &lt;a@x.example&gt;;</div>'
    "<div><b>发送时间:</b>&nbsp;2026年3月2日(星期一) 上午10:00</div><div><b>收件人:</b>&nbsp;mara</div>"
    "<div><b>主题:</b>&nbsp;Approval</div></div><div><br></div>{mail}"
)
NETEASE = (
    '<div style="line-height:1.7;color:#000000;font-size:14px;font-family:Arial">{own}<br/><br/>'
    '<div id="divNeteaseMailCard"></div><br/>At 2026-03-02 10:00:00, "Signoff" &lt;a@x.example&gt; '
    'wrote:<br/> <blockquote id="isReplyContent" style="PADDING-LEFT: 1ex; MARGIN: 0px 0px 0px 0.8ex; '
    'BORDER-LEFT: #ccc 1px solid">{mail}</blockquote></div>'
)
YANDEX = (
    '<div>{own}</div><div> </div><div>02.03.2026, 10:00, "Signoff" &lt;a@x.example&gt;:</div>'
    "<blockquote>{mail}</blockquote>"
)
ZOHO = (
    '<!DOCTYPE html><html><head><meta content="text/html;charset=UTF-8" http-equiv="Content-Type">'
    '</head><body><div style="font-family: Verdana, Arial, Helvetica, sans-serif; font-size: 10pt;">'
    '{own}<div class="zmail_extra_hr" style="border-top: 1px solid rgb(204, 204, 204); height: 0px; '
    'margin-top: 10px; margin-bottom: 10px; line-height: 0px;"><br></div><div class="zmail_extra" '
    'data-zbluepencil-ignore="true"><br><div id="Zm-_Id_-Sgn1">---- On Mon, 02 Mar 2026 10:00:00 +0100'
    ' <b>Signoff &lt;a@x.example&gt;</b> wrote ---<br></div><br><blockquote id="blockquote_zmail" '
    'style="margin: 0px;">{mail}</blockquote></div></div></body></html>'
)
ZIMBRA = (
    '<html><body><div style="font-family: arial, helvetica, sans-serif; font-size: 12pt; color: '
    '#000000">{own}<div><br></div><hr id="zwchr" data-marker="__DIVIDER__"><div data-marker='
    '"__HEADERS__"><b>From: </b>"Signoff" &lt;a@x.example&gt;<br><b>To: </b>"mara"<br><b>Sent: </b>'
    "Monday, March 2, 2026 10:00:00 AM<br><b>Subject: </b>Approval<br></div><div><br></div><div "
    'data-marker="__QUOTED_TEXT__">{mail}</div></div></body></html>'
)
ROUNDCUBE = (
    '<html><head><meta http-equiv="Content-Type" content="text/html; charset=UTF-8" /></head><body '
    "style='font-size: 10pt; font-family: Verdana,Geneva,sans-serif'>{own}<p id=\"reply-intro\">On "
    '2026-03-02 10:00, Signoff wrote:</p><blockquote type="cite" style="padding: 0 0.4em; border-left: '
    '#1010ff 2px solid; margin: 0"><div id="replybody1">{mail}</div></blockquote></body></html>'
)
MAIL_RU = (
    '<HTML><BODY>{own}<blockquote style="border-left:1px solid #0857A6; margin:10px; padding:0 0 0 '
    '10px;">Понедельник, 2 марта 2026, 10:00 +03:00 от Signoff &lt;a@x.example&gt;:<br><div id="">'
    "{mail}</div></blockquote></BODY></HTML>"
)
LARK = (
    '<div id="lark-mail-content" style="word-break: break-word;"><div style="margin-top: 4px; '
    'margin-bottom: 4px; line-height: 1.6;"><div dir="auto" style="font-size: 14px;">{own}</div></div>'
    '</div><div class="history-quote-wrapper" id="lark-mail-quote-1"><div class='
    '"lark-mail-quote"><div>发件人: Signoff</div>{mail}</div></div>'
)
SPARK = (
    '<html xmlns="http://www.w3.org/1999/xhtml"><head><title></title></head><body><div name='
    '"messageBodySection"><div dir="auto">{own}</div></div><div name="messageSignatureSection"><br>'
    '</div><div name="messageReplySection">On 2 Mar 2026 at 10:00 +0100, Signoff &lt;a@x.example&gt;, '
    'wrote:<br><blockquote type="cite" style="border-left-color: grey; border-left-width: thin; '
    'border-left-style: solid; margin: 5px 5px;padding-left: 10px;">{mail}</blockquote></div></body>'
)
HEY = (
    '<!DOCTYPE html><html><head><meta http-equiv="Content-Type"></head><body><div class='
    '"trix-content"><div>{own}</div></div><br><div class="hey-quote">On March 2, 2026, Signoff '
    '&lt;a@x.example&gt; wrote:<blockquote class="hey-quote">{mail}</blockquote></div></body></html>'
)
FASTMAIL = (
    '<!DOCTYPE html><html><head><title></title><style type="text/css">p.MsoNormal,p.MsoNoSpacing'
    "{{margin:0}}</style></head><body>{own}<div>On Mon, Mar 2, 2026, at 10:00 AM, Signoff wrote:</div>"
    '<blockquote type="cite" id="qt" style=""><div>{mail}</div></blockquote></body></html>'
)
EM_CLIENT = (
    '<html><head><style id="css_styles" type="text/css"><!--blockquote.cite {{ margin-left: 5px; '
    "margin-right: 0px; padding-left: 10px; padding-right:0px; border-left: 1px solid #cccccc }}\n"
    "blockquote.cite2 {{margin-left: 5px; padding-left: 10px; border-left: 1px solid #cccccc; "
    "margin-top: 3px; padding-top: 0px; }}\na img {{ border: 0px; }}\nbody {{font-family: Segoe UI; "
    'font-size: 12pt;}}--></style></head><body class="plain">{own}<div><br></div><div>------ Originalnachricht'
    ' ------</div><div>Von: "Signoff" &lt;a@x.example&gt;</div><div>An: mara@example.com</div><div>'
    'Gesendet: 02.03.2026 10:00:00</div><div>Betreff: Approval</div><div><br></div><div id="x1" '
    'class="plain"><blockquote cite="card@signoff.example" type="cite" class="cite2">{mail}'
    "</blockquote></div></body></html>"
)
TUTA = (
    "{own}<div><br></div><div>2. März 2026, 10:00 von approvals@signoff.example:<br></div><blockquote "
    'class="tutanota_quote" style="border-left: 1px solid #93A3B8; padding-left: 10px; margin-left: '
    '5px;">{mail}</blockquote>'
)
WP = (
    '<div>{own}</div><div><br></div><div class="nh_extra"><p>Dnia 2 marca 2026 10:00 Signoff &lt;a@x.example'
    '&gt; napisał(a):</p><blockquote class="nh_quote" style="margin:0 0 0 0.8ex; border-left:1px solid '
    '#ccc; padding-left:1ex;">{mail}</blockquote></div>'
)
SEZNAM = (
    "<div>{own}<br><br></div><aside>---------- Původní e-mail ----------<br>Od: Signoff &lt;a@x.example"
    "&gt;<br>Komu: mara@example.com<br>Datum: 2. 3. 2026 10:00:00<br>Předmět: Approval </aside><br>"
    '<blockquote data-email="a@x.example">{mail}</blockquote>'
)
EXPRESS = (
    '<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.0 Transitional//EN"><HTML><HEAD><META content="text/html'
    '; charset=utf-8"><STYLE></STYLE></HEAD><BODY bgColor=#ffffff>{own}<BLOCKQUOTE style="PADDING-RIGHT'
    ': 0px; PADDING-LEFT: 5px; MARGIN-LEFT: 5px; BORDER-LEFT: #000000 2px solid; MARGIN-RIGHT: 0px">'
    '<DIV style="FONT: 10pt arial">----- Original Message ----- </DIV><DIV style="BACKGROUND: #e4e4e4; '
    'FONT: 10pt arial; font-color: black"><B>From:</B> <A href="mailto:a@x.example">Signoff</A> </DIV>'
    "{mail}</BLOCKQUOTE></BODY></HTML>"
)


def _word_lines(lines: Sequence[str]) -> str:
    return "".join(
        "<p class=MsoNormal><span style='mso-fareast-language:EN-US'>"
        f"{escape(line) or '&nbsp;'}<o:p></o:p></span></p>"
        for line in lines
    )


def _page(
    template: str, lines: Callable[[Sequence[str]], str] = _divs
) -> Callable[[Sequence[str], str], str]:
    return lambda own, mail: template.format(own=lines(own), mail=mail, on=ON_MARKED_UP)


PROGRAMS = (
    Program(
        "gmail",
        _above(ON),
        lambda own, mail: (
            f'<div dir="ltr">{_divs(own)}</div>' + GMAIL_QUOTE.format(on=ON_MARKED_UP, mail=mail)
        ),
    ),
    Program(
        "gmail android",
        _above(ON),
        lambda own, mail: (
            f'<div dir="auto">{_divs(own, " dir=auto")}</div>'
            + GMAIL_QUOTE.format(on=ON_MARKED_UP, mail=mail)
        ),
    ),
    Program(
        "outlook",
        lambda own, mail: f"{_words(own)}\n\n{block('de')}\n{mail}",
        lambda own, mail: WORD_HEAD + _word_lines(own) + WORD_QUOTE.format(mail=mail),
    ),
    Program(
        "outlook web",
        lambda own, mail: f"{_words(own)}\n{'_' * 32}\n{block('en')}\n{mail}",
        lambda own, mail: OWA_HEAD + _divs(own, OWA_LINE) + OWA_QUOTE.format(mail=mail),
    ),
    Program(
        "outlook mobile",
        lambda own, mail: (
            f"{_words(own)}\n\nGet Outlook for iOS<https://aka.ms/o0ukef>\n"
            f"{'_' * 32}\n{block('en')}\n{mail}"
        ),
        _page(OUTLOOK_MOBILE, lambda own: _divs(own, OWA_LINE)),
    ),
    Program(
        "apple mail",
        _above(f"On 2 Mar 2026, at 10:00, {WHO} wrote:"),
        lambda own, mail: (
            '<html><head><meta http-equiv="content-type" content="text/html; '
            f'charset=utf-8"></head><body style="{APPLE_STYLE}">{_divs(own)}<br id='
            '"lineBreakAtBeginningOfMessage"><div><br><blockquote type="cite"><div>On 2 Mar 2026, at '
            '10:00, Signoff &lt;a@x.example&gt; wrote:</div><br class="Apple-interchange-newline"><div>'
            f"{mail}</div></blockquote></div><br></body></html>"
        ),
    ),
    Program(
        "iphone",
        lambda own, mail: (
            f"{_words(own)}\n\nVon meinem iPhone gesendet\n\n> Am 02.03.2026 um 10:00 "
            f"schrieb {WHO}:\n> \n> \N{OBJECT REPLACEMENT CHARACTER}\n{marked(mail)}"
        ),
        lambda own, mail: (
            '<html><head><meta http-equiv="content-type" content="text/html; '
            f'charset=utf-8"></head><body dir="auto">{_divs(own)}<div dir="ltr"><br></div><div dir="ltr">'
            'Von meinem iPhone gesendet</div><div dir="ltr"><br><blockquote type="cite">Am 02.03.2026 '
            "um 10:00 schrieb Signoff &lt;a@x.example&gt;:<br><br></blockquote></div><blockquote "
            f'type="cite"><div dir="ltr">\N{ZERO WIDTH NO-BREAK SPACE}{mail}</div></blockquote></body></html>'
        ),
    ),
    Program(
        "thunderbird",
        _above("Am 02.03.26 um 10:00 schrieb Signoff:"),
        _page(THUNDERBIRD, lambda own: f"<p>{_breaks(own)}</p>"),
    ),
    Program(
        "yahoo",
        _above(
            f"On Monday, March 2, 2026 at 10:00:00 AM GMT+1, {WHO} wrote:", lambda mail: f" {mail}"
        ),
        _page(YAHOO, lambda own: _divs(own, ' dir="ltr" data-setdir="false"')),
    ),
    Program(
        "proton",
        _above(f"On Monday, March 2nd, 2026 at 10:00 AM, {WHO} wrote:"),
        lambda own, mail: (
            _divs(own, PROTON_LINE) + '<div class="protonmail_signature_block '
            'protonmail_signature_block-empty" style="font-family: Arial, sans-serif; font-size: 14px;">'
            '<div class="protonmail_signature_block-user protonmail_signature_block-empty"></div></div>'
            '<div style="font-family: Arial; font-size: 14px;"><br></div><div class="protonmail_quote">On '
            "Monday, March 2nd, 2026 at 10:00 AM, Signoff &lt;a@x.example&gt; wrote:<br><br><blockquote "
            f'class="protonmail_quote" type="cite">{mail}</blockquote><br></div>'
        ),
    ),
    Program(
        "samsung",
        lambda own, mail: (
            f"{_words(own)}\n\n\nSent from my Galaxy\n\n\n-------- Original message --------\nFrom: {WHO} \nDate: 02/03/2026  10:00  (GMT+01:00) \nTo: mara@example.com \nSubject: Approval \n\n{mail}"
        ),
        _page(SAMSUNG, lambda own: _divs(own, ' dir="auto"')),
    ),
    Program(
        "gmx",
        _none,
        lambda own, mail: (
            f'<html><head></head><body><div style="font-family: Verdana;font-size: 12.0px;">{_divs(own)}<div>&nbsp;{GMX_QUOTE.format(mail=mail)}</div></div></body></html>'
        ),
    ),
    Program(
        "notes",
        lambda own, mail: (
            f"{_words(own)}\n\n\n\nVon:    {WHO}\nAn:     mara@example.com\nDatum:  02.03.2026 10:00\nBetreff:        Approval needed\n\n\n\n{mail}"
        ),
        lambda own, mail: (
            f'<html><body><p><font size="2">{_breaks(own)}</font>{NOTES_QUOTE.format(mail=mail)}</body></html>'
        ),
    ),
    Program(
        "groupwise",
        lambda own, mail: f"{_words(own)}\n\n>>> {WHO} 3/2/2026 10:00 AM >>>\n{mail}",
        lambda own, mail: (
            f'<html><head><meta name="Generator" content="GroupWise"></head><body style="margin: 4px 4px 1px; font: 10pt Tahoma;">{_divs(own)}<div>&nbsp;</div><div>{GROUPWISE_LINE}</div>{mail}</body></html>'
        ),
    ),
    Program(
        "groupwise new",
        lambda own, mail: (
            f'{_words(own)}\n\n>>> On 3/2/2026 at 10:00 AM, in message <5E5D@signoff.example>, "Signoff" <a@x.example> wrote:\n{mail}'
        ),
        lambda own, mail: (
            f'<html><body>{_breaks(own)}<br><br>&gt;&gt;&gt; On 3/2/2026 at 10:00 AM, in message &lt;5E5D@signoff.example&gt;, "Signoff" &lt;a@x.example&gt; wrote:<br>{mail}</body></html>'
        ),
    ),
    Program("foxmail", _none, _page(FOXMAIL)),
    Program(
        "qq",
        lambda own, mail: (
            f'{_words(own)}\n\n\n\n\n------------------ 原始邮件 ------------------\n发件人: "Signoff" <a@x.example>;\n发送时间: 2026年3月2日(星期一) 上午10:00\n收件人: "mara";\n主题: Approval\n\n{mail}'
        ),
        _page(QQ, _breaks),
    ),
    Program(
        "netease",
        _above(
            'At 2026-03-02 10:00:00, "Signoff" <a@x.example> wrote:', lambda mail: marked(mail, ">")
        ),
        _page(NETEASE),
    ),
    Program("yandex", _none, _page(YANDEX, _breaks)),
    Program(
        "zoho",
        lambda own, mail: (
            f"{_words(own)}\n\n\n\n---- On Mon, 02 Mar 2026 10:00:00 +0100 {WHO} wrote ---\n\n{mail}"
        ),
        _page(ZOHO),
    ),
    Program(
        "zimbra",
        lambda own, mail: (
            f'{_words(own)}\n\n----- Original Message -----\nFrom: "Signoff" <a@x.example>\nTo: "mara"\nSent: Monday, March 2, 2026 10:00:00 AM\nSubject: Approval\n\n{mail}'
        ),
        _page(ZIMBRA),
    ),
    Program(
        "roundcube",
        _above("On 2026-03-02 10:00, Signoff wrote:"),
        _page(ROUNDCUBE, lambda own: "".join(f"<p>{escape(one)}</p>" for one in own if one)),
    ),
    Program(
        "mail.ru",
        lambda own, mail: (
            f"{_words(own)}\n\n\n>Понедельник, 2 марта 2026, 10:00 +03:00 от Signoff <a@x.example>:\n>\n{marked(mail, '>')}"
        ),
        _page(MAIL_RU, _divs),
    ),
    Program("lark", _none, _page(LARK, _breaks)),
    Program("spark", _above(f"On 2 Mar 2026 at 10:00 +0100, {WHO}, wrote:"), _page(SPARK, _breaks)),
    Program("hey", _above("On March 2, 2026, Signoff <a@x.example> wrote:"), _page(HEY, _breaks)),
    Program(
        "fastmail", _above("On Mon, Mar 2, 2026, at 10:00 AM, Signoff wrote:"), _page(FASTMAIL)
    ),
    Program(
        "em client",
        lambda own, mail: (
            f'{_words(own)}\n\n------ Originalnachricht ------\nVon: "Signoff" <a@x.example>\nAn: mara@example.com\nGesendet: 02.03.2026 10:00:00\nBetreff: Approval\n\n{marked(mail, ">")}'
        ),
        _page(EM_CLIENT),
    ),
    Program("tuta", _none, _page(TUTA)),
    Program("wp", _none, _page(WP, _breaks)),
    Program(
        "seznam",
        lambda own, mail: (
            f'{_words(own)}\n\n---------- Původní e-mail ----------\nOd: Signoff <a@x.example>\nKomu: mara@example.com\nDatum: 2. 3. 2026 10:00:00\nPředmět: Approval\n"{mail}"'
        ),
        _page(SEZNAM, _breaks),
    ),
    Program(
        "express",
        lambda own, mail: (
            f"{_words(own)}\n  ----- Original Message ----- \n  From: Signoff \n  To: mara@example.com \n  Sent: Monday, March 02, 2026 10:00 AM\n  Subject: Approval\n\n\n{mail}"
        ),
        _page(
            EXPRESS,
            lambda own: "".join(
                f"<DIV><FONT face=Arial size=2>{escape(one) or '&nbsp;'}</FONT></DIV>"
                for one in own
            ),
        ),
    ),
)
"""The programs, each with the plain text and the page of a reply."""
