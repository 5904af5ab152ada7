"""Which entries a prompt, or a command that is about to run, brings back, and why.

    score = overlap x confidence x experience

`overlap` is the share of an entry's words that the prompt has, the rare ones weighing more; `confidence` has faded
since the last evidence; `experience` is 1 + a tenth for every doubling of the occurrences. A prompt needs two words of
an entry; a command needs to be the one that failed. With an embedder, what is alike in meaning counts in place of the
overlap where it is more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from reflexion.confidence import FADED, compute_confidence
from reflexion.entry import Entry
from reflexion.entry_files import load
from reflexion.index import Index
from reflexion.orders import reads_as_order
from reflexion.triggers import list_keywords, list_words
from reflexion.user_files import is_own

Embed = Callable[[Sequence[str]], Any]
"""Texts to vectors of length 1, rows of a matrix."""

MOST_WORDS = 60
WEIGHING = 5
"""Words of an entry that its overlap is a share of: its rarest ones."""
ALIKE = 0.55
"""Cosine from which on two texts are taken to be about the same."""


class Match(NamedTuple):
    """An entry that was looked at, with the terms of its score."""

    entry: Entry
    score: float
    overlap: float
    confidence: float
    experience: float
    words: tuple[str, ...] = ()
    """Words that prompt and entry share."""
    alike: float = 0.0
    """Cosine of their vectors, with an embedder."""
    why_not: str = ""
    """Why it is not recalled; empty when it is."""


def recall_for_prompt(
    index: Index, prompt: str, now: float, threshold: float, embed: Embed | None = None
) -> list[Match]:
    """Matches of a prompt, best first, those that stay below the threshold behind, each with what kept it out."""
    words = list_words(prompt)[:MOST_WORDS]
    ids = index.find_by_words(words)
    if embed is not None:
        ids = list(dict.fromkeys([*ids, *index.list_recallable()]))
    total = max(index.count_entries(), 1)
    entries = [entry for entry in (load(index.root, each) for each in ids) if entry is not None]
    every = {word: 1 for entry in entries for word in _get_words(entry)}
    counts = index.count_words(list(every)[:400]) if every else {}
    rarity = {word: math.log(1 + total / counts.get(word, 1)) for word in every}
    alike = _compare(embed, prompt, entries) if embed is not None and entries else [0.0] * len(entries)
    found = [
        _match(index, entry, set(words), rarity, cosine, now) for entry, cosine in zip(entries, alike, strict=True)
    ]
    found = [
        match if match.why_not or match.score >= threshold else match._replace(why_not=f"below {threshold:g}")
        for match in found
    ]
    return sorted(found, key=lambda match: (bool(match.why_not), -match.score, match.entry.id))


def recall_for_command(index: Index, command: str, now: float) -> list[Match]:
    """Matches of a normalized command that failed before, best first."""
    found = []
    for entry_id in index.find_by_command(command):
        if (entry := load(index.root, entry_id)) is not None:
            found.append(match_entry(index, entry, now))
    return sorted(
        found, key=lambda match: (bool(match.why_not), not match.entry.resolution, -match.score, match.entry.id)
    )


def match_entry(index: Index, entry: Entry, now: float) -> Match:
    """The match of an entry that is known to be meant."""
    why_not = find_obstacle(index, entry, now)
    if not why_not and not entry.resolution and entry.occurrences < 2:
        why_not = "no resolution, and seen once"
    confidence, experience = compute_confidence(entry, now), weigh_experience(entry)
    return Match(entry, confidence * experience, 1.0, confidence, experience, why_not=why_not)


def find_obstacle(index: Index, entry: Entry, now: float) -> str:
    """Why an entry is never recalled now, in words; empty when nothing is in the way."""
    if entry.promoted:
        return "promoted: it is a rule already"
    if not index.shares and not is_own(index.root, entry.id, entry.owner):
        return "somebody else wrote it, and this project is not shared"
    if reads_as_order(entry):
        return "it reads like an instruction"
    if entry.resolution and compute_confidence(entry, now) < FADED:
        return "faded"
    return ""


def weigh_experience(entry: Entry) -> float:
    """1 and a tenth for every doubling of the occurrences, 2 at most."""
    return min(2.0, 1 + 0.1 * math.log2(max(entry.occurrences, 1)))


def _match(index: Index, entry: Entry, words: set[str], rarity: dict[str, float], cosine: float, now: float) -> Match:
    own = _get_words(entry)
    shared = tuple(word for word in own if word in words)
    weights = sorted((rarity[word] for word in own), reverse=True)[:WEIGHING]
    overlap = min(1.0, sum(rarity[word] for word in shared) / sum(weights)) if weights and len(shared) > 1 else 0.0
    overlap = max(overlap, cosine if cosine >= ALIKE else 0.0)
    confidence, experience = compute_confidence(entry, now), weigh_experience(entry)
    why_not = find_obstacle(index, entry, now)
    if not why_not and not entry.resolution:
        why_not = "no resolution"
    return Match(entry, overlap * confidence * experience, overlap, confidence, experience, shared, cosine, why_not)


def _get_words(entry: Entry) -> tuple[str, ...]:
    return entry.keywords or tuple(list_keywords(entry.trigger, entry.context, entry.resolution))


def _compare(embed: Embed, prompt: str, entries: Sequence[Entry]) -> list[float]:
    """Cosines of the prompt with every entry."""
    vectors = embed([prompt, *(f"{entry.context} {entry.trigger}" for entry in entries)])
    return [float(sum(a * b for a, b in zip(vectors[0], row, strict=True))) for row in vectors[1:]]
