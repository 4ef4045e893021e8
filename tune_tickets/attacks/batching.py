"""Texts to tokens to batches: each text is tokenised once per process, and batches hold texts of like length."""

import math
from collections.abc import Iterator, Sequence
from threading import Lock

import torch
from transformers import PreTrainedTokenizerBase

Text = str | tuple[str, ...]

_CPU_TOKENS, _FEWEST_TOKENS = 256, 128
"""Tokens a batch may hold on a CPU: more of them are no faster and leave a core idle at the end, fewer are slower."""
_CPU_OVERHEAD, _GPU_OVERHEAD = 24, 1024
"""What a batch costs beside its tokens, counted in tokens: a rough figure that decides between padding and batches."""
_REMEMBERED = 2**17

_encodings: dict[tuple[str, int], dict[Text, dict[str, list[int]]]] = {}
"""By tokenizer and maximum length: attacks on the same rows ask for much the same texts, trial after trial."""
_one_at_a_time = Lock()


class Tokens:
    """A tokenizer with a memory that all of its kind in this process share."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        self.tokenizer = tokenizer
        self._max_length = max_length
        backend = getattr(tokenizer, "backend_tokenizer", None)
        name = backend.to_str() if backend is not None else str(id(tokenizer))
        self._known = _encodings.setdefault((name, max_length), {})

    def encode(self, texts: Sequence[Text]) -> list[dict[str, list[int]]]:
        """What the model reads of each text, without padding."""
        with _one_at_a_time:
            new = list(dict.fromkeys(text for text in texts if text not in self._known))
            if len(self._known) + len(new) > _REMEMBERED:
                self._known.clear()
                new = list(dict.fromkeys(texts))
            if new:
                columns = zip(*((text,) if isinstance(text, str) else text for text in new), strict=True)
                found = self.tokenizer(*map(list, columns), truncation=True, max_length=self._max_length)
                for row, text in enumerate(new):
                    self._known[text] = {name: values[row] for name, values in found.items()}
            return [self._known[text] for text in texts]


def batches(
    encoded: Sequence[dict[str, list[int]]], tokenizer: PreTrainedTokenizerBase, device: torch.device, rows: int
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Batches of at most `rows` rows, each with the places its rows have in `encoded`; the longest first, so that
    cores that share them are done at about the same time."""
    by_length = sorted(range(len(encoded)), key=lambda place: len(encoded[place]["input_ids"]))
    lengths = [len(encoded[place]["input_ids"]) for place in by_length]
    budget, overhead = (_for_each_core(sum(lengths)), _CPU_OVERHEAD) if device.type == "cpu" else (None, _GPU_OVERHEAD)
    for start, stop in reversed(_cheapest(lengths, rows, budget, overhead)):
        places = by_length[start:stop]
        yield places, _padded([encoded[place] for place in places], tokenizer, device)


def _for_each_core(tokens: int) -> int:
    """Tokens of a batch on a CPU, so that few texts still are batches enough for all cores."""
    return min(_CPU_TOKENS, max(_FEWEST_TOKENS, math.ceil(tokens / torch.get_num_threads())))


def _cheapest(lengths: Sequence[int], rows: int, budget: int | None, overhead: int) -> list[tuple[int, int]]:
    """Where to cut sorted texts into batches so that padded tokens, and a batch's own cost in tokens, are fewest."""
    cost, cut = [0], [0]
    for stop in range(1, len(lengths) + 1):
        longest = lengths[stop - 1]
        most = rows if budget is None else max(1, min(rows, budget // longest))
        starts = range(max(0, stop - most), stop)
        least, best = min((cost[start] + overhead + (stop - start) * longest, start) for start in starts)
        cost.append(least)
        cut.append(best)
    found: list[tuple[int, int]] = []
    stop = len(lengths)
    while stop:
        found.append((cut[stop], stop))
        stop = cut[stop]
    return found[::-1]


def _padded(
    rows: Sequence[dict[str, list[int]]], tokenizer: PreTrainedTokenizerBase, device: torch.device
) -> dict[str, torch.Tensor]:
    filling = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    length = len(rows[-1]["input_ids"])  # the longest: rows come sorted
    return {
        name: torch.tensor([row[name] + [filling.get(name, 0)] * (length - len(row[name])) for row in rows]).to(device)
        for name in rows[0]
    }
