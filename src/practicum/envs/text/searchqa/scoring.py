"""Is an answer right? Exact match and F1 as in SQuAD, which Search-R1 and AgentGym use."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower the case, drop punctuation and articles, and even out the spaces."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


def exact_match(answer: str, golden: Sequence[str]) -> bool:
    """Whether the answer equals one of the golden ones after normalising."""
    return any(_key(answer) == _key(gold) for gold in golden)


def f1(answer: str, golden: Sequence[str]) -> float:
    """The best overlap of words with a golden answer, 0..1."""
    return max(_overlap(_key(answer).split(), _key(gold).split()) for gold in golden)


def _key(text: str) -> str:
    # A band called The The, or the grade A, would otherwise equal every article.
    return normalise(text) or text.strip().lower()


def _overlap(answer: Sequence[str], gold: Sequence[str]) -> float:
    common = sum((Counter(answer) & Counter(gold)).values())
    return 2.0 * common / (len(answer) + len(gold)) if common else 0.0
