"""Texts that talk to the agent as no output of a tool does: "ignore previous instructions", in several languages.

    reads_as_order(entry)       # whether an entry holds one; such an entry is not recalled, promoted or exported

Each row holds a language, letters of which a text must have at least one to be looked at, and a pattern. Texts are
folded first: lower case, without accents, wide and decorated letters as plain ones. So patterns have no accents
either, and the Russian ones have и for й. This is a net, not a proof: other words and languages pass it.
"""

from __future__ import annotations

import re

from reflexion.entry import Entry
from reflexion.triggers import clean_text

_ORDERS: tuple[tuple[str, str, str], ...] = (
    (
        "English",
        "",
        r"\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}"
        r"\b(?:instruction|prompt|rule|previous|above|prior|earlier|polic|safety|guard)"
        r"|\b(?:system|developer)\s+(?:prompt|message)\b|\b(?:new|updated|real) instructions?\b|\bfrom now on\b"
        r"|\byou are (?:now\b|an? (?:ai|llm|agent|assistant|expert|helpful|language model))"
        r"|^\s*(?:system|assistant|user|human|developer|tool)\s*:"
        r"(?!\s*(?:(?:command )?not found|no such|cannot|permission))"
        r"|\[/?inst\]|<\|[^|]*\||<\s*/?\s*system\b|\bas an (?:ai|llm)\b"
        r"|^\W*important\W+(?:please|run|do|always|never|you)\b"
        r"|\b(?:note|message|instructions?|attention)\b.{0,8}\b(?:to|for) (?:the |all |any )?"
        r"(?:ai|llms?|agents?|assistants?)\b"
        r"|\bdo not (?:tell|inform|mention)\b.{0,30}\buser\b"
        r"|\b(?:assistants?|claude|codex|gemini|llms?|ai|(?<![\w-])agents?|language models?)\b.{0,20}"
        r"\b(?:must|should|shall|please)\b(?! (?:be|have)\b)",
    ),
    (
        "Spanish",
        "ignor olvid omiso caso ahora prompt usuari",
        r"(?<!\bse )\b(?:ignor(?:a|e|en|ad|ar)|olvid(?:a|e|en|ad|ar|ate de)|ha(?:z|ga) caso omiso|no hagas caso)\b"
        r".{0,40}\b(?:instruccion|indicacion|directri[zc]|ordenes|anterior|previ[ao]s?\b)|\bprompt del? sistema\b"
        r"|\b(?:desde|de|a partir de) ahora\b.{0,30}\b(?:eres|debes|tienes|haras|ejecuta)\b"
        r"|\bahora eres\b|\bno (?:se )?(?:lo )?(?:digas|informes|menciones)\b.{0,30}\busuari[oa]",
    ),
    (
        "French",
        "ignor oubli compte maintenant desormais prompt utilisateur",
        r"\b(?:ignore[zr]?|oublie[zr]?|ne (?:tiens|tenez) (?:pas|aucun) compte)\b.{0,40}"
        r"\b(?:instruction|consigne|directive|regles? (?:precedente|ci-dessus)|ordres|precedent|ce qui precede)"
        r"|\bprompt systeme\b|\b(?:a partir de maintenant|desormais)\b.{0,12}\b(?:tu|vous)\b"
        r"|\b(?:tu es|vous etes) (?:maintenant|desormais)\b"
        r"|\bne (?:le )?(?:dis|dites|mentionne[sz]?|informe[sz]?)\b.{0,30}\butilisateur",
    ),
    (
        "German",
        "ignorier vergiss vergessen missacht beachte system jetzt sofort du nutzer anwender",
        r"\b(?:ignorier(?:e|en)|vergiss|vergessen sie|missacht(?:e|en))\b.{0,40}"
        r"\b(?:anweisung|instruktion|vorgabe|bisherig|vorherig|vorangegangen|obig)"
        r"|\bbeachten? (?:sie )?.{0,30}\b(?:anweisung|vorgabe)\w* nicht\b|\bsystem-?(?:prompt|anweisung)"
        r"|\bab (?:jetzt|sofort) (?:bist|wirst|sollst|musst) du\b|\bdu bist (?:jetzt|nun|ab sofort)\b"
        r"|\b(?:sag|sage|erwahne|informiere)\b.{0,30}\b(?:nutzer|benutzer|anwender)\w*.{0,12}\bnicht",
    ),
    (
        "Chinese",
        "忽 无 無 忘 不 绕 繞 系 从 從 你",
        r"(?<![已被将會会])(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會|不要遵守|绕过|繞過).{0,12}"
        r"(?:指令|指示|提示词|提示詞|规则|規則|设定|設定|(?:以上|之前|先前|前面|上述)的?(?:所有|一切|全部)?(?:内容|內容|对话|對話))"
        r"|系[统統]提示[词詞]|[从從](?:现在|現在)(?:开始|開始|起)[，,]?\s*你|你(?:现在|現在)是"
        r"|不要(?:告诉|告訴|通知|提醒).{0,4}(?:用户|用戶|使用者)",
    ),
    (
        "Russian",
        "игнорир забуд внимани отныне момента теперь системн пользовател",
        r"\b(?:(?:про)?игнорируи(?:те)?|забудь(?:те)?|не обращаи(?:те)? внимания)\b.{0,40}"
        r"(?:инструкци|указани|предыдущ|прежн|вышеизложенн|правила выше)"
        r"|\b(?:про)?игнорировать\b.{0,20}\bпредыдущ|\bсистемн\w+ (?:промпт|инструкци)"
        r"|\b(?:отныне|с этого момента|теперь) (?:ты|вы)\b|\b(?:ты|вы) (?:теперь|отныне)\b"
        r"|\bне (?:говори|сообщаи|упоминаи)(?:те)?\b.{0,30}\bпользовател",
    ),
)


def reads_as_order(entry: Entry) -> bool:
    """Whether a text of an entry talks to the agent as no output of a tool does."""
    return any(is_order(text) for text in (entry.trigger, entry.context, entry.resolution))


def is_order(text: str) -> bool:
    """Whether a text gives the agent orders."""
    folded = _fold(clean_text(text))
    return any(
        re.search(pattern, folded)
        for _, letters, pattern in _ORDERS
        if not letters or any(part in folded for part in letters.split())
    )


def _fold(text: str) -> str:
    """The text in lower case and plain letters, without accents."""
    if text.isascii():
        return text.lower()
    from unicodedata import category, normalize

    return "".join(sign for sign in normalize("NFKD", text) if category(sign) != "Mn").lower()
