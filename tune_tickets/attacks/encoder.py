"""The bundled MiniLM as a resource of the attacks: similarities of texts, each computed once, and word vectors."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from tune_tickets.attacks.batching import Tokens, batches
from tune_tickets.attacks.cores import spread
from tune_tickets.attacks.lockstep import Channel
from tune_tickets.attacks.memory import Memory
from tune_tickets.attacks.resources import cache_folder
from tune_tickets.models.bundled import WEIGHTS_SHA256, bundled_encoder_path
from tune_tickets.models.lean import Batch, lean_states

_MAX_TOKENS = 256  # as published for all-MiniLM-L6-v2
_BATCH = 64


@cache
def load_encoder(device: torch.device, dtype: torch.dtype = torch.float32) -> "SentenceEncoder":
    """The encoder of this process on that device; attacks on the same rows share what it has computed."""
    path = bundled_encoder_path()
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)  # type: ignore[no-untyped-call]
    model = AutoModel.from_pretrained(path, local_files_only=True).to(device=device, dtype=dtype)
    name = f"embeddings-{WEIGHTS_SHA256[:12]}-{str(dtype).removeprefix('torch.')}.sqlite"
    return SentenceEncoder(model, tokenizer, Memory(cache_folder() / "attacks" / name))


class SentenceEncoder:
    """Mean-pooled, normalised sentence embeddings; each is kept on disk, where every attack of the machine finds it."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, memory: Memory[bytes]) -> None:
        self._model = model.train(False)
        self._states = lean_states(model) or (lambda batch: model(**batch).last_hidden_state)
        self._tokens = Tokens(tokenizer, _MAX_TOKENS)
        self._memory = memory
        self._channel: Channel[tuple[str, str], float] = Channel(self._similarities)

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of the embeddings of each pair of texts."""
        return list(self._channel.ask(pairs))

    def embed(self, texts: Sequence[str]) -> torch.Tensor:
        """One unit vector per text, on the CPU."""
        kept = self._memory.answers(
            [(text,) for text in texts], lambda places: self._compute([texts[place] for place in places])
        )
        vectors = np.frombuffer(b"".join(kept), dtype=str(self._model.dtype).removeprefix("torch."))
        return torch.from_numpy(vectors.reshape(len(texts), -1).copy())

    def vocabulary(self) -> dict[str, int]:
        """The tokens and their rows in `word_vectors`."""
        return dict(self._tokens.tokenizer.get_vocab())

    def word_vectors(self) -> torch.Tensor:
        """The input word embeddings, normalised, on the CPU."""
        weight = self._model.get_input_embeddings().weight
        return torch.nn.functional.normalize(weight.detach().float().cpu(), dim=1)

    def _similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        vectors = self.embed([text for pair in pairs for text in pair])
        cosines: list[float] = (vectors[0::2] * vectors[1::2]).sum(dim=1).tolist()
        return cosines

    def _compute(self, texts: Sequence[str]) -> list[bytes]:
        device = self._model.device
        made = list(batches(self._tokens.encode(texts), self._tokens.tokenizer, device, _BATCH))
        computed: dict[int, bytes] = {}
        for (places, _), pooled in zip(made, spread(self._pooled, (batch for _, batch in made), device), strict=True):
            computed.update((place, vector.tobytes()) for place, vector in zip(places, pooled.numpy(), strict=True))
        return [computed[place] for place in range(len(texts))]

    def _pooled(self, batch: Batch) -> torch.Tensor:
        hidden = self._states(batch)
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * mask).sum(dim=1) / mask.sum(dim=1), dim=1).cpu()
