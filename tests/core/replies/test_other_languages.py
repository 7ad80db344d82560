"""Commands, notes, grants and small print in French, Spanish, Italian, Portuguese and Dutch."""

from __future__ import annotations

import tomllib
from datetime import date, timedelta
from pathlib import Path

import pytest

from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import (
    Approve,
    Ask,
    Away,
    Back,
    Claim,
    Comment,
    Extend,
    Grant,
    Reassign,
    Reject,
    Release,
    Remind,
    Reply,
    Revoke,
    Unclear,
    Withdraw,
)
from signoff.core.replies.text import Names, ReplyContext

TABLES = Path(__file__).parent / "phrases"
CONTEXT = ReplyContext(
    people=(Names(("Tom Weber", "Anna Berg", "Nora Okafor")),), author=Names(("Mara Lind",))
)
CODES = ("fr", "es", "it", "pt", "nl")
HOURS = timedelta(hours=1)
DAYS = timedelta(days=1)
YEARS_END = Away(start=date(2026, 12, 20), end=date(2027, 1, 2), delegate="Tom")


def read(text: str) -> Reply:
    """Return the parsed reply without the readings of its parts."""
    return read_reply(text, CONTEXT).model_copy(update={"parts": ()})


COMMANDS: list[tuple[str, Reply]] = [
    ("Je m'en occupe", Claim()),
    ("Bonjour,\nje prends pour 2 heures\nMara", Claim(length=2 * HOURS)),
    ("Me encargo por 2 horas", Claim(length=2 * HOURS)),
    ("La prendo in carico per 2 ore", Claim(length=2 * HOURS)),
    ("Eu cuido disso", Claim()),
    ("Ik pak deze op voor 2 uur", Claim(length=2 * HOURS)),
    ("Je rends la demande : réunion", Release(reason="réunion")),
    ("Lo libero", Release()),
    ("La restituisco: sono fuori", Release(reason="sono fuori")),
    ("Devolvo: sem tempo", Release(reason="sem tempo")),
    ("Ik geef het vrij", Release()),
    (
        "Merci de transmettre à Tom : c'est son budget",
        Reassign(to="Tom", reason="c'est son budget"),
    ),
    ("Por favor, pásalo a Tom: es suyo", Reassign(to="Tom", reason="es suyo")),
    ("Girala a Tom: è sua", Reassign(to="Tom", reason="è sua")),
    ("Favor encaminhar ao Tom: é dele", Reassign(to="Tom", reason="é dele")),
    ("Graag aan Tom overdragen: zijn budget", Reassign(to="Tom", reason="zijn budget")),
    ("Question : quel centre de coûts ?", Ask(text="quel centre de coûts ?")),
    ("Pregunta: ¿qué centro de coste?", Ask(text="¿qué centro de coste?")),
    ("Domanda: quale centro di costo?", Ask(text="quale centro di costo?")),
    ("Pergunta: qual centro de custo?", Ask(text="qual centro de custo?")),
    ("Vraag: welke kostenplaats?", Ask(text="welke kostenplaats?")),
    ("Commentaire : conforme au devis", Comment(text="conforme au devis")),
    ("Comentario: coincide con la oferta", Comment(text="coincide con la oferta")),
    ("Commento: conforme all'offerta", Comment(text="conforme all'offerta")),
    ("Comentário: confere", Comment(text="confere")),
    ("Opmerking: klopt met offerte", Comment(text="klopt met offerte")),
    ("Prolonger de 4 heures : j'attends", Extend(length=4 * HOURS, reason="j'attends")),
    ("Ampliar 4 horas: espero la oferta", Extend(length=4 * HOURS, reason="espero la oferta")),
    ("Prorogare di 4 ore: attendo", Extend(length=4 * HOURS, reason="attendo")),
    ("Mais 2 dias: aguardo a fatura", Extend(length=2 * DAYS, reason="aguardo a fatura")),
    ("Verlengen met 4 uur: offerte", Extend(length=4 * HOURS, reason="offerte")),
    ("Merci de relancer", Remind()),
    ("Enviar un recordatorio", Remind()),
    ("Sollecita", Remind()),
    ("Enviar lembrete", Remind()),
    ("Stuur een herinnering", Remind()),
    ("Je retire ma demande", Withdraw()),
    ("Cancelo la solicitud: error", Withdraw(reason="error")),
    ("Ritiro la richiesta", Withdraw()),
    ("Retiro o pedido", Withdraw()),
    ("Ik trek de aanvraag in", Withdraw()),
    ("Je révoque l'autorisation", Revoke()),
    ("Revoco la autorización", Revoke()),
    ("Revoco l'autorizzazione", Revoke()),
    ("Revogo a autorização", Revoke()),
    ("Toestemming intrekken", Revoke()),
    ("Absent jusqu'au 24 décembre 2026", Away(end=date(2026, 12, 24))),
    ("En congé du 20 décembre 2026 au 2 janvier 2027, remplaçant : Tom", YEARS_END),
    ("Ausente del 20 de diciembre de 2026 al 2 de enero de 2027, suplente: Tom", YEARS_END),
    ("Assente dal 20 dicembre 2026 al 2 gennaio 2027, sostituto Tom", YEARS_END),
    ("Ausente de 2026-12-20 a 2027-01-02, substituto Tom", YEARS_END),
    ("Afwezig van 2026-12-20 tot 2027-01-02, vervanger Tom", YEARS_END),
    ("Je suis de retour", Back()),
    ("Estoy de vuelta", Back()),
    ("Sono tornata", Back()),
    ("Estou de volta", Back()),
    ("Ik ben terug", Back()),
]


@pytest.mark.parametrize(("text", "expected"), COMMANDS, ids=[text for text, _ in COMMANDS])
def test_commands(text: str, expected: Reply) -> None:
    """Each language has words for each command."""
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "span", "uses"),
    [
        ("Approuvé et les appels similaires pendant 4 heures", 4 * HOURS, None),
        ("approuvé et les demandes similaires pour 4 heures, au plus 3 fois", 4 * HOURS, 3),
        ("Aprobado y solicitudes similares por 4 horas", 4 * HOURS, None),
        ("aprobado y las llamadas similares durante 2 días, máximo 5 veces", 2 * DAYS, 5),
        ("Approvato e anche le richieste simili per 4 ore", 4 * HOURS, None),
        ("approvato e le chiamate simili per le prossime 4 ore, massimo 3 volte", 4 * HOURS, 3),
        ("Aprovado e pedidos semelhantes por 4 horas", 4 * HOURS, None),
        ("aprovado e as chamadas semelhantes durante 2 dias, no máximo 5 vezes", 2 * DAYS, 5),
        ("Akkoord en soortgelijke aanvragen voor 4 uur", 4 * HOURS, None),
        ("goedgekeurd en vergelijkbare verzoeken gedurende 2 dagen, maximaal 5 keer", 2 * DAYS, 5),
    ],
)
def test_similar_calls(text: str, span: timedelta, uses: int | None) -> None:
    """An approval may cover similar calls, for a while and up to a number."""
    assert read(text) == Approve(grant=Grant(span=span, uses=uses))


@pytest.mark.parametrize(
    "text",
    [
        (
            "Approuvé\n\nCe message et ses pièces jointes sont confidentiels. Si vous avez reçu ce "
            "message par erreur, merci de le détruire."
        ),
        "Aprobado\n\nEste mensaje y sus archivos adjuntos son confidenciales.",
        "Approvato\n\nQuesto messaggio e i suoi allegati sono riservati.",
        "Aprovado\n\nEsta mensagem e seus anexos são confidenciais.",
        "Akkoord\n\nDit bericht en eventuele bijlagen zijn vertrouwelijk.",
        "Approuvé\nEnvoyé à partir de Outlook pour iOS",
        "Aprobado\nEnviado desde Outlook para Android",
        "Approvato\nInviato da Outlook per iOS",
        "Aprovado\nEnviado a partir do meu smartphone Samsung Galaxy",
        "Akkoord\nVerstuurd vanaf mijn Samsung Galaxy",
        "Approuvé\n\nCordialement,\nMara Lind\nDirectrice administrative\nTél. 01 23 45",
        "Aprobado\n\nSaludos,\nMara Lind\nDirectora de Administración y Finanzas",
        "Approvato\n\nCordiali saluti\nMara Lind\nResponsabile amministrazione e controllo",
        "Aprovado\n\nAtenciosamente,\nMara Lind\nDiretora de Finanças",
        "Akkoord\n\nMet vriendelijke groet,\nMara Lind\nHoofd financiële administratie",
    ],
)
def test_text_added_by_programs_does_not_change_a_yes(text: str) -> None:
    """Small print, signatures of phones, and titles change nothing."""
    assert read(text) == Approve()


@pytest.mark.parametrize(
    "text",
    [
        "Approuvé\n\nToute diffusion doit être validée par Tom",
        "Approuvé\nEnvoyé de la part de Tom",
        "Aprobado\nEnviado por Tom ayer",
        "Approvato\nInviato da Tom ieri",
        "Aprovado\nEnviado de novo para o Tom decidir",
        "Akkoord\nVerstuurd aan Tom ter controle",
        "Approuvé\n\nCordialement\nMara\nAttendre le service juridique",
        "Aprobado\n\nSaludos\nMara\nEsperar a compras",
        "Approvato\n\nSaluti\nMara\nAspettare acquisti",
        "Aprovado\n\nAbraços\nMara\nAguardar compras",
        "Akkoord\n\nGroet\nMara\nWachten op inkoop",
    ],
)
def test_sentence_like_small_print_is_not_skipped(text: str) -> None:
    """A sentence that a person adds below a yes is never skipped as small print."""
    assert isinstance(read(text), Unclear)


@pytest.mark.parametrize("code", CODES)
def test_reply_with_a_yes_and_a_no_never_approves(code: str) -> None:
    """A reply with a yes and a no is not an approval."""
    table = tomllib.loads((TABLES / f"{code}.toml").read_text("utf-8"))
    texts = [f"{table['yes'][0]}, {no}" for no in table["no"]]
    assert [text for text in texts if isinstance(read(text), Approve)] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Je ne peux pas approuver cette dépense, le budget est épuisé.", "le budget est épuisé."),
        ("Non : doublon", "doublon"),
        ("No puedo aprobar este gasto, no hay presupuesto", "no hay presupuesto"),
        ("Non posso approvare la spesa, manca il budget", "manca il budget"),
        ("Não aprovo, é muito caro", "é muito caro"),
        ("Helaas kan ik dit niet goedkeuren: buiten budget", "buiten budget"),
    ],
)
def test_text_after_a_no_is_its_reason(text: str, reason: str) -> None:
    """The reason reaches the agent in the person's own words."""
    assert read(text) == Reject(reason=reason)
