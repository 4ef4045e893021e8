"""What a bias model sees of a row: features that go with the label in training, and should not decide it.

SRNets appendix B.3.1: word overlap of a pair (MNLI, QQP) or word vectors of the claim alone (FEVER).
"""

from collections.abc import Sequence

import numpy as np

from tune_tickets.config.debiasing import BiasModel
from tune_tickets.data.word_vectors import Array, WordVectors, words_of

OVERLAP = ("all-in", "sub-sequence", "percent-in", "mean-similarity", "min-similarity")
FURTHER = ("log-length-difference", "second-min-similarity")


def bias_features(
    settings: BiasModel, columns: tuple[str, ...], texts: Sequence[tuple[str, ...]], vectors: WordVectors | None
) -> Array:
    """The features of every row, [rows, features]."""
    if settings.features == "marker":
        return np.array([markers_in(row, settings.markers or ()) for row in texts])
    assert vectors is not None
    place = len(columns) - 1 if settings.column is None else columns.index(settings.column)
    if settings.features == "claim":
        return np.stack([vectors.max_pooled(words_of(row[place])) for row in texts])
    width = len(OVERLAP + FURTHER) if settings.further else len(OVERLAP)
    pairs = ((words_of(row[1 - place]), words_of(row[place])) for row in texts)
    return np.array([overlap(premise, hypothesis, vectors)[:width] for premise, hypothesis in pairs])


def overlap(premise: Sequence[str], hypothesis: Sequence[str], vectors: WordVectors) -> tuple[float, ...]:
    """The features `OVERLAP` and `FURTHER` of a pair; all 0 for a hypothesis without words."""
    if not hypothesis:
        return (0.0,) * len(OVERLAP + FURTHER)
    there = set(premise)
    shared = sum(word in there for word in hypothesis)
    similarities = np.sort(vectors.best_cosines(hypothesis, premise))
    return (
        float(shared == len(hypothesis)),
        float(is_subsequence(hypothesis, premise)),
        shared / len(hypothesis),
        float(similarities.mean()),
        float(similarities[0]),
        float(np.log(max(len(premise) - len(hypothesis), 1))),
        float(similarities[1]) if len(similarities) > 1 else 0.0,
    )


def is_subsequence(part: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether the words of `part` stand in `whole` one right after the other."""
    length = len(part)
    return any(whole[start : start + length] == part for start in range(len(whole) - length + 1))


def markers_in(texts: tuple[str, ...], markers: Sequence[str]) -> tuple[float, ...]:
    """For every marker 1.0 if it stands in one of the texts, between white space, else 0.0."""
    tokens = {token.casefold() for text in texts for token in text.split()}
    return tuple(float(marker.casefold() in tokens) for marker in markers)
