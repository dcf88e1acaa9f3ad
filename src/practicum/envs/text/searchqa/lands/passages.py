"""One passage per thing in the lands: its facts as sentences, worded and ordered by hash."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from functools import lru_cache

from practicum.envs.text.searchqa.lands.draws import pick, shuffled
from practicum.envs.text.searchqa.lands.facts import Land, load_lands
from practicum.envs.text.searchqa.lands.sentences import REMARKS, SENTENCES
from practicum.envs.text.searchqa.retriever import Document

CORPUS_ID = "lands-1"
"""Names the bundled collection in tasks; another collection must have another name."""

_NOT_FACTS = frozenset({"name", "They", "they", "trade", "a_trade"})


@lru_cache(maxsize=1)
def load_passages() -> Sequence[Document]:
    """The bundled collection; built once per process."""
    found = [(land, name) for land in load_lands() for name in land.kinds]
    # Neighbours in a list would be neighbours in tied results.
    order = shuffled((name for _, name in found), "passage order")
    land_of = {name: land for land, name in found}
    return tuple(
        Document(f"{CORPUS_ID}-{i}", name, _write(land_of[name], name))
        for i, name in enumerate(order)
    )


def corpus_hash(documents: Sequence[Document]) -> str:
    """SHA-256 over all passages in order."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(f"{document.id}\0{document.title}\0{document.text}\0".encode())
    return digest.hexdigest()


def slots(template: str) -> list[str]:
    """The slots of a sentence, in order."""
    return [slot for _, slot, _, _ in string.Formatter().parse(template) if slot]


def _write(land: Land, name: str) -> str:
    kind = land.kinds[name]
    groups = SENTENCES[kind]
    pronoun = land.pronouns.get(name, "it")
    words = {"name": name, "they": pronoun, "They": pronoun.capitalize()}
    trade = land.trades.get(name, "")
    words |= {"trade": trade, "a_trade": f"{'an' if trade[:1] in 'aeiou' else 'a'} {trade}"}
    facts = {key.split(".")[1]: v for (subject, key), v in land.facts.items() if subject == name}
    sentences = []
    for i, group in enumerate(groups):
        template = pick(group, "wording", name, i)
        if all(slot in facts for slot in slots(template) if slot not in _NOT_FACTS):
            sentences.append(template.format(**words, **facts))
    details = [*sentences[1:], pick(REMARKS[kind], "remark", name)]
    return " ".join([sentences[0], *shuffled(details, "details", name)])
