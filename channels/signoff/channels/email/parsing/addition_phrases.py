"""The words of warnings, notices and disclaimers that mail systems add, by language: data only."""

from typing import Final

from signoff.channels.email.inbound.automatic import folded

BANNER_TAGS: Final = frozenset(
    folded(
        (
            *("external", "external email", "external e-mail", "external mail", "external sender"),
            *("external message", "ext", "extern", "externe", "externer absender", "extern email"),
            *("externe e-mail", "externe email", "externe mail", "extern e-mail", "extern mail"),
            *("e-mail extern", "mail extern", "externe nachricht", "courriel externe"),
            *("mail externe", "message externe", "email externe", "expéditeur externe", "externo"),
            *("externa", "correo externo", "email externo", "e-mail externo", "mensaje externo"),
            *("mensagem externa", "remitente externo", "remetente externo", "esterno", "esterna"),
            *("mail esterna", "email esterna", "e-mail esterna", "posta esterna"),
            *("mittente esterno", "messaggio esterno", "externe afzender", "extern bericht"),
            *(
                "externí",
                "zewnętrzny",
                "外部",
                "外部メール",
                "社外",
                "社外メール",
                "外部からのメール",
            ),
            *("외부", "외부메일", "외부 메일", "외부발신", "외부 발신", "외부 발신자", "외부인"),
            *(
                "外部邮件",
                "外部郵件",
                "外部发件人",
                "外部寄件者",
                "外部来信",
                "外部信件",
                "外来邮件",
            ),
            *("external!", "warning external email", "caution external email", "safe sender"),
            *("caution external", "warning external", "attention external", "caution: external"),
            *("warning: external", "achtung extern", "achtung externe e-mail", "vorsicht extern"),
        )
    )
)
"""Tags that stand alone on a line, or in brackets before the text."""

BANNER_OPENINGS: Final = folded(
    (
        *("caution", "warning", "external", "attention", "alert", "notice", "be careful"),
        *("achtung", "vorsicht", "extern", "hinweis", "warnung", "diese e-mail", "diese nachricht"),
        *("avertissement", "prudence", "ce message", "ce courriel", "cet e-mail", "cet email"),
        *("atención", "precaución", "advertencia", "aviso", "externo", "este mensaje"),
        *("este correo", "atenção", "cuidado", "alerta", "este e-mail", "este email"),
        *("esta mensagem", "attenzione", "avviso", "esterno", "questa e-mail", "questa email"),
        *("questo messaggio", "let op", "waarschuwing", "pas op", "deze e-mail", "dit bericht"),
        *("this email", "this e-mail", "this message", "this is an external", "you received this"),
        *("注意", "警告", "このメール", "社外", "外部", "【注意", "【社外", "주의", "경고"),
        *("이 메일", "이 이메일", "본 메일", "외부", "提醒", "此邮件", "此電子郵件", "该邮件"),
        *("本邮件", "此郵件", "本郵件", "此电子邮件", "这封邮件", "安全提示", "sécurité"),
    )
)
"""How the line begins that warns of mail from elsewhere."""

BANNER_REASONS: Final = folded(
    (
        *("originated outside", "originated from outside", "originates from outside"),
        *("came from outside", "sent from outside", "outside of the organi", "outside the organi"),
        *(
            "outside of your organi",
            "outside your organi",
            "outside our organi",
            "outside the firm",
        ),
        *("outside of our", "outside the company", "outside of the company", "outside the network"),
        *("external sender", "external source", "external email", "external e-mail"),
        *("external mail", "external message", "external domain", "external address"),
        *("external to the organi", "do not click", "don't click", "unknown sender"),
        *("think before you click", "could not be verified", "untrusted sender"),
        *("außerhalb der organisation", "außerhalb des unternehmens", "außerhalb unserer"),
        *("externen absender", "externer absender", "externe absender", "externen quelle"),
        *("kommt von extern", "externe e-mail", "externen e-mail", "unbekannten absender"),
        *("von außerhalb", "klicken sie nicht", "öffnen sie keine"),
        *("extérieur de l'organisation", "extérieur de votre", "extérieur de notre"),
        *("l'extérieur", "expéditeur externe", "source externe", "personne externe"),
        *("externe à l'organisation", "externe à votre", "ne cliquez pas", "adresse externe"),
        *("fuera de la organización", "fuera de su organización", "remitente externo"),
        *("origen externo", "correo externo", "no haga clic", "fuera de nuestra"),
        *("fuente externa", "remitente desconocido", "fora da organização", "fora da empresa"),
        *("remetente externo", "origem externa", "e-mail externo", "não clique", "fonte externa"),
        *("esterno all'organizzazione", "esterna all'organizzazione", "mittente esterno"),
        *("dall'esterno", "origine esterna", "non cliccare", "non fare clic", "fonte esterna"),
        *("esterno all'azienda", "buiten de organisatie", "buiten uw organisatie"),
        *("externe afzender", "extern afkomstig", "externe bron", "van buiten", "klik niet"),
        *(
            "社外から",
            "外部から",
            "組織外から",
            "外部の送信者",
            "社外の送信者",
            "リンクをクリックしない",
        ),
        *("외부에서", "외부 발신", "조직 외부", "회사 외부", "외부로부터", "링크를 클릭하지"),
        *("外部邮件", "外部发件人", "组织外部", "来自外部", "公司外部", "外部郵件", "組織外部"),
        *("外部寄件者", "來自外部", "请勿点击", "請勿點擊", "外部发送"),
    )
)
"""What else stands in that line."""

BANNER_LINES: Final = frozenset(
    folded(
        (
            *(
                "this message is from an external sender",
                "this message is from an untrusted sender",
            ),
            *("this message is from an unknown sender", "report suspicious", "report phish"),
            *("this message came from outside your organization", "this email is from outside"),
            *("this message came from outside your organisation", "suspicious message"),
            *("you have not previously corresponded with this sender", "use caution"),
            *("this message is from a new sender", "external (outside your organization)"),
            *("begin pgp signed message", "report as suspicious", "mark safe", "block sender"),
            *("hash: sha1", "hash: sha256", "hash: sha512"),
        )
    )
)
"""Whole lines of such warnings."""

BANNER_SENTENCES: Final = (
    folded(
        (
            *("you don't often get email from", "some people who received this message don't"),
            *("sie erhalten nicht häufig e-mails von", "sie erhalten nicht oft e-mails von"),
            *("sie erhalten nicht oft eine e-mail von", "sie erhalten häufig keine e-mails von"),
            *("einige personen, die diese nachricht erhalten haben", "learn why this is important"),
            *("erfahren sie, warum dies wichtig ist", "vous n'obtenez pas souvent d'e-mail"),
            *("vous ne recevez pas souvent", "certaines personnes qui ont reçu ce message"),
            *("découvrez pourquoi cela", "no suele recibir correo", "no recibe correos a menudo"),
            *("no suele recibir correos", "algunas personas que recibieron este mensaje"),
            *(
                "algunas de las personas que han recibido este mensaje",
                "por qué esto es importante",
            ),
            *("descubra por qué esto es importante", "non si riceve spesso posta elettronica"),
            *("non ricevi spesso", "non si ricevono spesso", "alcune persone che hanno ricevuto"),
            *("informazioni sul perché è importante", "scopri perché è importante"),
            *("você não costuma receber", "não costuma receber", "não recebe frequentemente"),
            *("geralmente, você não recebe", "algumas pessoas que receberam esta mensagem"),
            *("saiba por que isso é importante", "saiba por que motivo isto é importante"),
            *("u ontvangt niet vaak e-mail", "u krijgt niet vaak e-mail", "je ontvangt niet vaak"),
            *("sommige mensen die dit bericht hebben ontvangen", "meer informatie over waarom dit"),
            *("あなたはこの差出人からのメールをあまり", "この送信者からメールを受け取ることは"),
            *("你通常不会收到来自", "您通常不会收到来自", "你不常收到来自", "您不常收到来自"),
            *("您通常不會收到來自", "你通常不會收到來自", "您不常收到來自", "收到此邮件的某些人"),
            *("了解为什么这一点很重要", "了解这一点为什么很重要", "瞭解這件事的重要性"),
        )
    ),
    folded(
        (
            *(
                "からメールを受け取る機会",
                "からのメールを受け取ることはあまり",
                "から頻繁にメールを",
            ),
            *(
                "からメールを受け取ることはあまり",
                "에서 자주 이메일을 받지",
                "에서 전자 메일을 자주",
            ),
            *("에서 이메일을 자주 받지", "로부터 전자 메일을 자주", "의 전자 메일을 자주 받지"),
        )
    ),
)
"""What Outlook says of a new author: how it begins, and how it goes on behind the address."""

BANNER_ENDS: Final = folded(
    ("important", "wichtig ist", "importante", "belangrijk is", "content is safe", "is safe")
)
"""How they end, without a full stop."""

NOTICE_OPENINGS: Final = folded(
    (
        *("virus-free. www.", "virus-free.www.", "virenfrei. www.", "virenfrei.www."),
        *("garanti sans virus. www.", "sans virus. www.", "garanti sans virus.www."),
        *("libre de virus. www.", "libre de virus.www.", "livre de vírus. www."),
        *("livre de vírus.www.", "mail priva di virus. www.", "privo di virus. www."),
        *("privo di virus.www.", "virusvrij. www.", "virusvrij.www.", "ウイルス フリー。 www."),
        *("ウイルスフリー。 www.", "ウイルスフリー。www.", "바이러스 없음. www.", "无病毒。 www."),
        *("바이러스가 없습니다. www.", "无病毒。www.", "不含病毒。 www.", "不含病毒。www."),
        *("無病毒。www.", "wolny od wirusów. www.", "без вирусов. www.", "virusfri. www."),
        *("www.avast.com", "https://www.avast.com", "http://www.avast.com", "www.avg.com"),
        *("https://www.avg.com", "http://www.avg.com", "http://www.eset.com", "www.eset.com"),
        *("https://www.eset.com", "checked by avg", "internal virus database is out of date"),
        *("this email has been checked for viruses by", "information from eset"),
        *("this e-mail has been checked for viruses by", "the message was checked by eset"),
        *("this email has been scanned by", "this e-mail has been scanned by"),
        *("this message has been scanned for viruses", "this email was scanned by"),
        *("this message has been scanned by", "this email has been scanned for viruses"),
        *("this email has been scanned for email related threats", "informationen von eset"),
        *("diese e-mail wurde von avast", "diese e-mail wurde mit avast", "informace od eset"),
        *("diese e-mail wurde auf viren", "diese nachricht wurde auf viren"),
        *("diese e-mail wurde von avg", "die nachricht wurde von eset", "eset endpoint"),
        *("l'absence de virus dans ce courrier", "cet e-mail a été vérifié par avast"),
        *("ce message a été vérifié par mailscanner", "cet e-mail a été analysé par"),
        *("ce message a été analysé par", "le message a été vérifié par eset"),
        *("el software de antivirus avast", "este correo electrónico ha sido comprobado"),
        *("este mensaje ha sido analizado por", "este correo ha sido analizado por"),
        *("este email foi escaneado pelo avast", "este e-mail foi verificado pelo"),
        *("esta mensagem foi verificada pelo", "o software de antivírus avast"),
        *("questa e-mail è stata controllata per individuare virus", "esta mensagem foi analisada"),
        *("questa e-mail è stata esaminata alla ricerca di virus", "questo messaggio è stato"),
        *("questa email è stata controllata", "dit e-mailbericht is gecontroleerd op virussen"),
        *("deze e-mail is gecontroleerd op virussen", "dit bericht is gecontroleerd op virussen"),
        *("deze e-mail is gescand door", "dit bericht is gescand door"),
        *("このメールは avast", "このメールはアバスト", "この e メールはアバスト"),
        *("このeメールはアバスト", "この電子メールは avast", "이 이메일은 avast"),
        *("이 이메일은 어베스트", "本邮件已由 avast", "此电子邮件已经过 avast", "此邮件已由 avast"),
        *("此電子郵件已經由 avast", "本郵件已由 avast", "this email is free from viruses"),
    )
)
"""How the lines begin by which virus scanners name themselves."""

NOTICE_LINES: Final = frozenset(
    folded(
        (
            *("no virus found in this message", "no viruses found in this message"),
            *("no virus found in this incoming message", "no virus found in this outgoing message"),
            *("no virus found", "no viruses found", "no viruses were found", "virus-free"),
            *("no viruses were found in this message", "scanned for viruses", "virus free"),
            *(
                "keine viren gefunden",
                "es wurden keine viren gefunden",
                "keine viren in dieser mail",
            ),
            *("in dieser nachricht wurden keine viren gefunden", "virenfrei", "virengeprüft"),
            *("keine viren in dieser nachricht gefunden", "diese e-mail ist virenfrei"),
            *("ausgehende nachricht ist virenfrei", "eingehende nachricht ist virenfrei"),
            *("aucun virus trouvé", "aucun virus trouvé dans ce message", "sans virus"),
            *("aucun virus détecté", "aucun virus n'a été détecté", "garanti sans virus"),
            *("aucun virus n'a été détecté dans ce message", "aucun virus n'a été trouvé"),
            *("aucun virus n'a été trouvé dans ce message", "no se encontraron virus"),
            *("no se encontraron virus en este mensaje", "no se han encontrado virus"),
            *("no se han encontrado virus en este mensaje", "libre de virus"),
            *("no se ha encontrado ningún virus", "no se detectaron virus", "sin virus"),
            *("no se ha detectado ningún virus", "nenhum vírus encontrado"),
            *("nenhum vírus encontrado nessa mensagem", "nenhum vírus encontrado nesta mensagem"),
            *("nenhum vírus foi encontrado", "não foram encontrados vírus", "livre de vírus"),
            *("nenhum vírus detectado", "nessun virus trovato", "nessun virus nel messaggio"),
            *("nessun virus rilevato", "nessun virus è stato trovato", "privo di virus"),
            *("nessun virus trovato in questo messaggio", "nessun virus in questo messaggio"),
            *("geen virus gevonden", "geen virussen gevonden", "virusvrij"),
            *("geen virus gevonden in dit bericht", "geen virussen gevonden in dit bericht"),
            *("er zijn geen virussen gevonden", "ウイルスは検出されませんでした", "ウイルスなし"),
            *("このメールからウイルスは検出されませんでした", "ウイルスは見つかりませんでした"),
            *(
                "このメッセージにウイルスは検出されませんでした",
                "ウイルスチェック済み",
                "ウイルスフリー",
            ),
            *("このメールにウイルスは検出されませんでした", "바이러스가 발견되지 않았습니다"),
            *("이 메시지에서 바이러스가 발견되지 않았습니다", "바이러스 없음"),
            *("이 메일에서 바이러스가 발견되지 않았습니다", "바이러스가 검출되지 않았습니다"),
            *("바이러스가 없습니다", "未发现病毒", "此邮件中未发现病毒", "本邮件未发现病毒"),
            *(
                "此邮件未发现病毒",
                "未發現病毒",
                "此郵件中未發現病毒",
                "无病毒",
                "不含病毒",
                "無病毒",
            ),
        )
    )
)
"""Whole lines of the same, without the mark at their end."""

DISCLAIMER_LINES: Final = frozenset(
    folded(
        (
            *("this e-mail is confidential", "this email is confidential", "confidential"),
            *("this message is confidential", "this email may be confidential", "disclaimer"),
            *("this email and any attachments are confidential", "confidentiality notice"),
            *("this e-mail and any attachments are confidential", "classification: internal"),
            *("please consider the environment before printing this email", "internal use only"),
            *("please consider the environment before printing this e-mail", "public", "internal"),
            *("please consider the environment before printing", "think before you print"),
            *(
                "please think of the environment before printing this email",
                "strictly confidential",
            ),
            *("diese e-mail ist vertraulich", "diese nachricht ist vertraulich", "vertraulich"),
            *("diese mail ist vertraulich", "der inhalt dieser e-mail ist vertraulich"),
            "bitte denken sie an die umwelt, bevor sie diese e-mail ausdrucken",
            *("denken sie an die umwelt, bevor sie diese e-mail ausdrucken", "nur intern"),
            "bitte denken sie an die umwelt, bevor sie diese mail ausdrucken",
            *("ce message est confidentiel", "cet e-mail est confidentiel", "confidentiel"),
            *("ce courriel est confidentiel", "cet email est confidentiel"),
            *("ce message et ses pièces jointes sont confidentiels", "pensez à l'environnement"),
            *("pensez à l'environnement avant d'imprimer ce message", "pensez à l'environnement"),
            *("pensez à l'environnement avant d'imprimer cet e-mail", "avis de confidentialité"),
            *("pensez à la planète avant d'imprimer ce message", "este mensaje es confidencial"),
            *("este correo es confidencial", "este correo electrónico es confidencial"),
            *("antes de imprimir este correo, piense en el medio ambiente", "confidencial"),
            *("antes de imprimir este mensaje, piense en el medio ambiente", "aviso legal"),
            "piense en el medio ambiente antes de imprimir este correo",
            *("este mensaje y sus adjuntos son confidenciales", "esta mensagem é confidencial"),
            *("este e-mail é confidencial", "este email é confidencial"),
            "pense no meio ambiente antes de imprimir este e-mail",
            *("antes de imprimir, pense no meio ambiente", "aviso de confidencialidade"),
            *("esta mensagem e seus anexos são confidenciais", "questo messaggio è riservato"),
            *("questa e-mail è riservata", "questa e-mail è confidenziale", "riservato"),
            *("questo messaggio è confidenziale", "prima di stampare, pensa all'ambiente"),
            "rispetta l'ambiente: non stampare questa mail se non è necessario",
            *("dit bericht is vertrouwelijk", "deze e-mail is vertrouwelijk", "vertrouwelijk"),
            *("denk aan het milieu voordat u deze e-mail print", "denk aan het milieu"),
            "denk aan het milieu voordat u dit bericht print",
            *("このメールは機密情報を含みます", "このメールには機密情報が含まれています", "社外秘"),
            *("本メールには機密情報が含まれています", "本メールは機密情報を含みます", "機密"),
            "本メールには機密情報が含まれている場合があります",
            *(
                "이 메일은 기밀입니다",
                "이 이메일은 기밀입니다",
                "이 메일은 기밀 정보를 포함하고 있습니다",
            ),
            *(
                "본 메일은 기밀 정보를 포함하고 있습니다",
                "본 메일에는 기밀 정보가 포함되어 있습니다",
            ),
            *("此邮件为机密邮件", "本邮件为机密邮件", "本邮件包含机密信息", "此邮件包含机密信息"),
            *("本邮件及其附件包含保密信息", "本邮件及其附件含有保密信息", "本郵件包含機密資訊"),
        )
    )
)
"""Disclaimers of one line."""

DISCLAIMER_OPENINGS: Final = folded(
    (
        *("this e-mail", "this email", "this message", "this communication", "this electronic"),
        *("this transmission", "the information contained", "the information in this"),
        *("the contents of this", "the content of this", "confidentiality notice", "disclaimer"),
        *("confidentiality note", "legal notice", "legal disclaimer", "important notice"),
        *("privileged and confidential", "if you are not the intended", "if you have received"),
        *("notice:", "confidential:", "any views", "unless expressly stated", "registered office"),
        *("diese e-mail", "diese email", "diese nachricht", "diese mail", "der inhalt dieser"),
        *("die in dieser", "vertraulichkeitshinweis", "haftungsausschluss", "wichtiger hinweis"),
        *("rechtlicher hinweis", "hinweis:", "sollten sie nicht", "wenn sie nicht der"),
        *("die informationen in dieser", "dieses e-mail", "dieses mail", "falls sie nicht"),
        *("ce message", "ce courriel", "ce courrier", "cet e-mail", "cet email", "ce mail"),
        *("les informations contenues", "l'information contenue", "avis de confidentialité"),
        *("avertissement", "si vous n'êtes pas", "si vous avez reçu", "l'intégrité de ce"),
        *("este mensaje", "este correo", "este e-mail", "este email", "la información contenida"),
        *("la información incluida", "aviso legal", "aviso de confidencialidad"),
        *("si usted no es", "si ha recibido", "el contenido de este", "en cumplimiento de"),
        *("esta mensagem", "as informações contidas", "a informação contida", "o conteúdo desta"),
        *("aviso de confidencialidade", "se você não", "se recebeu", "o conteúdo deste"),
        *("questo messaggio", "questa e-mail", "questa email", "questa comunicazione"),
        *("le informazioni contenute", "il contenuto di questa", "il presente messaggio"),
        *("la presente e-mail", "avviso di riservatezza", "ai sensi del", "le informazioni in"),
        *("dit bericht", "deze e-mail", "dit e-mailbericht", "deze mail", "de informatie"),
        *("de inhoud van dit", "de inhoud van deze", "indien u niet", "als u niet"),
        *("このメール", "このeメール", "この電子メール", "本メール", "本電子メール", "本eメール"),
        *("当メール", "このメッセージ", "機密保持", "機密情報", "この e メール"),
        *(
            "이 메일",
            "이 이메일",
            "이 전자우편",
            "이 전자메일",
            "본 메일",
            "본 이메일",
            "본 전자우편",
        ),
        *("본 전자메일", "본 메시지", "이 메시지", "본메일", "본 메일과"),
        *("本邮件", "此邮件", "本电子邮件", "此电子邮件", "该邮件", "这封邮件", "本郵件", "此郵件"),
        *("本電子郵件", "此電子郵件", "本信件", "免责声明", "保密声明", "保密提示", "重要提示"),
        *("免責聲明", "保密聲明"),
    )
)
"""How a paragraph begins that is a disclaimer if the words of one are in it."""

DISCLAIMER_WORDS: Final = folded(
    (
        *("confidential", "intended recipient", "intended for", "intended only", "addressee"),
        *("privileged", "disclos", "unauthori", "delete", "notify the sender", "in error"),
        *("prohibited", "liability", "legally", "copying", "dissemination", "virus"),
        *("vertraulich", "empfänger", "adressat", "irrtümlich", "vernichten", "löschen"),
        *("unbefugt", "weitergabe", "absender", "rechtlich geschützt", "nicht gestattet"),
        *("confidentiel", "destinataire", "par erreur", "détrui", "expéditeur", "diffusion"),
        *("interdit", "responsabilité", "destiné", "confidencial", "destinatari", "por error"),
        *("por erro", "elimin", "remitente", "remetente", "prohibid", "proibid", "privilegiad"),
        *("divulga", "apag", "riservat", "confidenzial", "per errore", "mittente", "distrugg"),
        *("cancell", "vietat", "vertrouwelijk", "geadresseerde", "bestemd", "ontvanger"),
        *("afzender", "verwijder", "aansprakelijk", "niet toegestaan"),
        *(
            "機密",
            "秘密情報",
            "受信者",
            "宛先",
            "誤って",
            "誤送信",
            "削除",
            "破棄",
            "開示",
            "送信者",
        ),
        *("기밀", "비밀", "수신인", "수신자", "잘못", "삭제", "발신자", "무단", "금지"),
        *(
            "机密",
            "保密",
            "收件人",
            "误",
            "删除",
            "发件人",
            "未经授权",
            "披露",
            "禁止",
            "誤",
            "刪除",
        ),
        *("寄件人", "未經授權"),
    )
)
"""Words that are in disclaimers; two of them make one."""

POSTSCRIPT_WORDS: Final = frozenset({"ps", "pps", "ppps"})
"""Initials that open a postscript, without their points."""

MARKED_POSTSCRIPT_WORDS: Final = frozenset({"pd", "nb", "edit", "update", "addendum"})
"""What opens one only with a point or a colon behind it."""

AFTERTHOUGHTS: Final = folded(
    (
        *("postscript", "post scriptum", "post-scriptum", "postscriptum", "nota bene", "nachtrag"),
        *("posdata", "postdata", "poscritto", "pós-escrito", "naschrift", "追伸", "追記", "추신"),
        *("덧붙임", "又及", "附言", "另:", "補充", "补充"),
    )
)
"""Words that open a postscript."""
