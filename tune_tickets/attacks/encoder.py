"""The bundled MiniLM as a resource of the attacks: sentence embeddings, each computed once, and word vectors."""

from collections.abc import Sequence
from functools import cache

import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.models.bundled import bundled_encoder_path

_MAX_TOKENS = 256  # as published for all-MiniLM-L6-v2
_BATCH = 16
_REMEMBERED = 2**15  # texts, 1.5 kB each


@cache
def load_encoder(device: torch.device) -> "SentenceEncoder":
    """The encoder of this process on that device; attacks on the same rows share what it has computed."""
    path = bundled_encoder_path()
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)  # type: ignore[no-untyped-call]
    model = AutoModel.from_pretrained(path, local_files_only=True).to(device)
    return SentenceEncoder(model, tokenizer)


class SentenceEncoder:
    """Mean-pooled, normalised sentence embeddings with a memory of the texts seen last."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self._model = model.train(False)
        self._tokenizer = tokenizer
        self._memory: dict[str, torch.Tensor] = {}

    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        """One unit vector per text, on the CPU."""
        wanted = set(texts)
        known = {text: self._memory.pop(text) for text in wanted if text in self._memory}
        known.update(self._compute(sorted(wanted - known.keys(), key=lambda text: (len(text), text))))
        self._memory.update(known)  # at the end of the dict: used last, forgotten last
        while len(self._memory) > _REMEMBERED:
            self._memory.pop(next(iter(self._memory)))
        return torch.stack([known[text] for text in texts])

    def similarity(self, text: str, others: Sequence[str]) -> list[float]:
        """The cosine of the text's embedding with each of the others'."""
        vectors = self.embed([text, *others])
        return [float(value) for value in vectors[1:] @ vectors[0]]

    def vocabulary(self) -> dict[str, int]:
        """The tokens and their rows in `word_vectors`."""
        return dict(self._tokenizer.get_vocab())

    def word_vectors(self) -> torch.Tensor:
        """The input word embeddings, normalised, on the CPU."""
        weight = self._model.get_input_embeddings().weight
        return torch.nn.functional.normalize(weight.detach().float().cpu(), dim=1)

    @torch.inference_mode()
    def _compute(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        computed: dict[str, torch.Tensor] = {}
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            computed.update(zip(batch, self._forward(batch).cpu(), strict=True))
        return computed

    def _forward(self, batch: Sequence[str]) -> torch.Tensor:
        encoded = self._tokenizer(
            list(batch), padding=True, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt"
        ).to(self._model.device)
        hidden = self._model(**encoded).last_hidden_state
        mask = encoded["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        return torch.nn.functional.normalize(pooled, dim=1)
