"""Fixtures of all tests: a tiny backbone in a local folder, a tiny task, and caches of this test run only."""

import os
import random
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

POSITIVE = ["good", "great", "fine", "superb", "lovely", "bright"]
NEGATIVE = ["bad", "poor", "awful", "dull", "weak", "bleak"]
FILLER = ["film", "plot", "actor", "scene", "story", "music", "the", "a", "was", "with", "very", "quite"]


@pytest.fixture(scope="session", autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory):
    """Nothing a test does may leave its temporary folder."""
    root = tmp_path_factory.mktemp("caches")
    before = dict(os.environ)
    os.environ |= {"HF_HOME": str(root / "hf"), "TUNE_TICKETS_CACHE": str(root / "tickets"), "MPLCONFIGDIR": str(root)}
    yield
    os.environ.clear()
    os.environ.update(before)


def sentence(label: int, words: random.Random) -> str:
    parts = words.choices(FILLER, k=words.randint(4, 8))
    parts.insert(words.randrange(len(parts)), words.choice(POSITIVE if label else NEGATIVE))
    return " ".join(parts)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A csv file of 240 short reviews that a tiny model can learn."""
    words = random.Random(0)
    rows, seen = ["text,label"], set()
    while len(seen) < 240:
        label = len(seen) % 2
        text = sentence(label, words)
        if text not in seen:
            seen.add(text)
            rows.append(f"{text},{'pos' if label else 'neg'}")
    path = tmp_path_factory.mktemp("data") / "reviews.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A 2-layer, 32-wide BERT with random weights and a word-level vocabulary, as a local folder."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-bert")
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *POSITIVE, *NEGATIVE, *FILLER]
    vocabulary += [letter for letter in letters if letter not in vocabulary] + [f"##{letter}" for letter in letters]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture
def tiny_yaml(tmp_path: Path, tiny_backbone: Path, tiny_data: Path) -> Path:
    """A complete experiment on the tiny backbone and task; a trial takes a few seconds."""
    path = tmp_path / "tiny.yaml"
    path.write_text(
        f"""\
name: tiny
model: {{source: {tiny_backbone}}}
task:
  source: {tiny_data}
  max_length: 24
  rows: {{train: 128, select: 48, report: 32}}
method:
  kind: earlyrobust
  learning_rate: 1.0e-3
  batch_size: 16
  mini_epoch: 0.125
  gamma: {{choice: [0.2, 0.4]}}
  patience: 2
  adversary: {{kind: freelb, steps: 2, step_size: 0.1}}
  drawing:
    heads: {{choice: [1/4, 3/8]}}
    neurons: {{uniform: [0.1, 0.5]}}
retraining: {{epochs: 8, learning_rate: 3.0e-3, batch_size: 16}}
evaluation: {{attacks: [textbugger/minilm], rows: 8, probe: {{rows: 16}}}}
search:
  trials: 3
  concurrency: 2
  sampler: random
  scheduler: {{kind: none}}
  warm_starts:
    - {{method.gamma: 0.2, method.drawing.heads: 1/4, method.drawing.neurons: 0.3}}
""",
        encoding="utf-8",
    )
    return path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Side by side, a file stays in one process, and so do the files of the pages, which share a search."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return "browser" if "/browser/" in file else file

    return ByFile(config, log)
