"""Our executor and unmodified TextAttack (its Attacker, wrapper and recipes, seeded per example) give equal results.

All in float64, so that the order of additions in a batch cannot change a comparison. No mismatch is allowed. Local
threat models score by the margin of the logits, stock by 1 - p: for two classes both give the same order.
"""

import json
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from tune_tickets.attacks.run import AttackRow, attack_rows, row_seed
from tune_tickets.attacks.threat import get_threat
from tune_tickets.attacks.victim import Victim
from tune_tickets.data.files import read_bundled
from tune_tickets.errors import ResourceError

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("toolkit")]

SEED = 3
LABELS = ("neg", "pos")
ROWS = 8
MAX_LENGTH = 96
"""Of tokens: stock pads every query to it. All rows are shorter."""


@pytest.fixture(scope="module")
def texts():
    table = read_bundled("bundled/rotten-tomatoes")
    return [str(text) for text in table.columns["text"][:ROWS]]


def tiny(kind, tokenizer, seed):
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    return kind(config).double().eval()


@pytest.fixture(scope="module")
def victim(tokenizer, texts):
    """Leans on single words enough to be fooled, and gives both labels."""
    model = tiny(BertForSequenceClassification, tokenizer, 0)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.mul_(20)
        model.classifier.weight.mul_(20)
        victim = Victim(model, tokenizer, MAX_LENGTH, 64)
        logits = victim(texts)
        model.classifier.bias -= torch.median(logits, dim=0).values
    return victim


@pytest.fixture(scope="module")
def rows(victim, texts):
    """Labelled as the victim sees them, but for one, which is skipped."""
    predicted = victim(texts).argmax(dim=1).tolist()
    assert set(predicted) == {0, 1}
    labels = [1 - predicted[0], *predicted[1:]]
    return [
        AttackRow(10 + number, (text,), label) for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]


@pytest.fixture
def masked_lm(tokenizer):
    from tune_tickets.attacks.masked_words import MaskedLM

    return MaskedLM(tiny(BertForMaskedLM, tokenizer, 1), tokenizer, "tiny, for tests")


@pytest.fixture(autouse=True)
def empty_memory(tmp_path, monkeypatch):
    """Neither side profits from what the other, or an earlier test, has computed."""
    from tune_tickets.attacks.neighbours import load_encoder

    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "cache"))
    load_encoder.cache_clear()
    yield
    load_encoder.cache_clear()


def by_stock(attack, rows):
    """(status, text, queries) of every row by TextAttack's own Attacker."""
    from textattack import AttackArgs, Attacker
    from textattack.datasets import Dataset

    results = []
    for row in rows:
        arguments = AttackArgs(num_examples=1, disable_stdout=True, silent=True, random_seed=row_seed(SEED, row.index))
        [result] = Attacker(attack, Dataset([(row.texts[0], row.label)]), arguments).attack_dataset()
        kind = type(result).__name__.removesuffix("AttackResult").lower()
        results.append((kind, result.perturbed_result.attacked_text.text, result.num_queries))
    return results


def by_us(victim, rows, threat, **options):
    found = attack_rows(victim, rows, threat, ("text",), "text", LABELS, SEED, **options)
    return [(record.status, record.perturbed_texts[0], record.queries) for record in found.records]


def stock_wrapper(victim):
    from textattack.models.wrappers import HuggingFaceModelWrapper

    tokenizer = copy(victim.tokenizer)
    tokenizer.model_max_length = MAX_LENGTH
    return HuggingFaceModelWrapper(victim.model, tokenizer)


def stock_attack(constraints, transformation, ranking, victim):
    """The stock classes all through, on parts that a test names."""
    from textattack import Attack
    from textattack.constraints.pre_transformation import RepeatModification
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedyWordSwapWIR

    goal = UntargetedClassification(stock_wrapper(victim))
    return Attack(goal, [RepeatModification(), *constraints], transformation, GreedyWordSwapWIR(wir_method=ranking))


def assert_parity(stock, ours):
    assert {status for status, _, _ in ours} >= {"skipped", "successful"}
    assert ours == stock


STOP_WORDS = ["a", "an", "and", "as", "but", "for", "in", "is", "it", "its", "not", "of", "that", "the", "to", "with"]


@pytest.fixture
def stop_words(tmp_path, monkeypatch):
    """One stop-word list for both sides: ours reads the file, the constraint of TextAttack asks NLTK."""
    path = tmp_path / "english"
    path.write_text("\n".join(STOP_WORDS), encoding="utf-8")
    monkeypatch.setenv("TUNE_TICKETS_STOP_WORDS", str(path))
    nltk_stop_words = SimpleNamespace(stopwords=SimpleNamespace(words=lambda language: STOP_WORDS))
    module = "textattack.constraints.pre_transformation.stopword_modification.nltk"
    monkeypatch.setattr(module, SimpleNamespace(corpus=nltk_stop_words))


def threat_or_skip(name, **options):
    try:
        return get_threat(name, **options)
    except ResourceError as error:
        pytest.skip(str(error).splitlines()[0])


def in_threes(texts):
    """The words of the texts, every one near two others."""
    words = sorted({word.strip(".,'\"").lower() for text in texts for word in text.split() if word.isalpha()})
    return [words[start : start + 3] for start in range(0, len(words), 3)]


@pytest.fixture
def neighbour_lists(tmp_path, monkeypatch, texts):
    """In the place of the counter-fitted lists."""
    path = tmp_path / "neighbours.json"
    near = {word: [other for other in three if other != word] for three in in_threes(texts) for word in three}
    path.write_text(json.dumps(near), encoding="utf-8")
    monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(path))


@pytest.mark.parametrize("name", ["textfooler/minilm", "textbugger/minilm", "textfooler/cf8", "bae-counterfitted/cf8"])
def test_word_swaps_with_local_resources(name, victim, rows, neighbour_lists):
    from tune_tickets.attacks.parts import Bugs
    from tune_tickets.attacks.recipes import Recipe

    threat = threat_or_skip(name)
    maker = Recipe.of(victim, threat, 0)
    attack = stock_attack(maker.constraints[1:], maker.transformation, threat.ranking, victim)
    stock = []
    for row in rows:
        if isinstance(maker.transformation, Bugs):
            maker.transformation.row_seed = row_seed(SEED, row.index)
        stock += by_stock(attack, [row])
    assert_parity(stock, by_us(victim, rows, threat))


def test_bert_attack(victim, rows, masked_lm):
    from textattack.constraints.overlap import MaxWordsPerturbed
    from textattack.transformations import WordSwapMaskedLM

    from tune_tickets.attacks.neighbours import load_encoder
    from tune_tickets.attacks.parts import ProtectedWords, SentenceSimilarity

    encoder = load_encoder(torch.device("cpu"), torch.float64)
    transformation = WordSwapMaskedLM(
        "bert-attack",
        masked_language_model=masked_lm.model,
        tokenizer=masked_lm.tokenizer,
        max_length=MAX_LENGTH,
        max_candidates=8,
    )
    constraints = [ProtectedWords(), MaxWordsPerturbed(max_percent=0.4), SentenceSimilarity(encoder, 0, 0.2, None)]
    stock = by_stock(stock_attack(constraints, transformation, "unk", victim), rows)
    threat = get_threat("bert-attack/minilm", masked_lm=masked_lm.identity)
    assert_parity(stock, by_us(victim, rows, threat, masked_lm=masked_lm))


@pytest.mark.parametrize("name", ["pwws", "pwws/local", "deepwordbug", "deepwordbug/local"])
def test_stock_recipes_without_an_encoder(name, victim, rows, stop_words, monkeypatch):
    from textattack.attack_recipes import DeepWordBugGao2018, PWWSRen2019
    from textattack.constraints.pre_transformation import StopwordModification

    from tune_tickets.attacks.parts import ProtectedWords
    from tune_tickets.attacks.word_resources import wordnet

    threat = replace(threat_or_skip(name), score="probability")  # a margin weighs saliency otherwise
    if name.startswith("pwws"):
        module = "textattack.transformations.word_swaps.word_swap_wordnet"
        monkeypatch.setattr(f"{module}.nltk", SimpleNamespace(download=lambda package: None))
        monkeypatch.setattr(f"{module}.wordnet", wordnet())
        monkeypatch.setattr(wordnet(), "langs", lambda: ["eng"])
    attack = (PWWSRen2019 if name.startswith("pwws") else DeepWordBugGao2018).build(stock_wrapper(victim))
    if name.endswith("/local"):
        attack.pre_transformation_constraints = [
            ProtectedWords() if isinstance(part, StopwordModification) else part
            for part in attack.pre_transformation_constraints
        ]
    assert_parity(by_stock(attack, rows), by_us(victim, rows, threat))


@pytest.fixture
def counter_fitted_like(tmp_path, monkeypatch, texts):
    """A file in the published format: the words of the rows with vectors that are near one another in threes."""
    generator = np.random.default_rng(0)
    lines = []
    for three in in_threes(texts):
        centre = generator.normal(size=24)
        for word in three:
            vector = centre + 0.3 * generator.normal(size=24)
            lines.append(f"{word} " + " ".join(f"{value:.6f}" for value in vector / np.linalg.norm(vector)))
    path = tmp_path / "counter-fitted-vectors.txt"
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("TUNE_TICKETS_COUNTER_FITTED", str(path))


@pytest.fixture
def encoder_of_the_papers(tmp_path, monkeypatch):
    """MiniLM instead of the Universal Sentence Encoder, on both sides."""
    from textattack.constraints.semantics.sentence_encoders import UniversalSentenceEncoder

    from tune_tickets.attacks import parts
    from tune_tickets.attacks.neighbours import load_encoder

    encoder = load_encoder(torch.device("cpu"), torch.float64)
    folder = tmp_path / "use"
    (folder / "variables").mkdir(parents=True)
    for file in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        (folder / file).write_bytes(b"in the place of weights")
    monkeypatch.setenv("TUNE_TICKETS_USE", str(folder))
    monkeypatch.setattr(parts, "universal_encoder", lambda: encoder.embed)
    monkeypatch.setattr(UniversalSentenceEncoder, "encode", lambda self, sentences: encoder.embed(list(sentences)))


@pytest.mark.usefixtures("encoder_of_the_papers", "stop_words", "counter_fitted_like")
@pytest.mark.parametrize("name", ["textfooler", "textbugger", "bae-counterfitted"])
def test_stock_recipes_on_the_resources_of_the_papers(name, victim, rows, monkeypatch):
    from textattack.attack_recipes import BAEGarg2019, TextBuggerLi2018, TextFoolerJin2019
    from textattack.constraints.overlap import MaxWordsPerturbed
    from textattack.shared import WordEmbedding
    from textattack.transformations import WordSwapEmbedding

    from tune_tickets.attacks import parts
    from tune_tickets.attacks.parts import LookalikeSwap

    parts.counter_fitted_embedding.cache_clear()
    threat = threat_or_skip(name)
    embedding = parts.counter_fitted_embedding()
    monkeypatch.setattr(WordEmbedding, "counterfitted_GLOVE_embedding", lambda: embedding)
    monkeypatch.setattr("textattack.attack_recipes.textbugger_li_2018.WordSwapHomoglyphSwap", LookalikeSwap)
    monkeypatch.setattr("textattack.attack_recipes.bae_garg_2019.WordSwapMaskedLM", lambda **_: WordSwapEmbedding(50))
    recipe = {"textfooler": TextFoolerJin2019, "textbugger": TextBuggerLi2018, "bae-counterfitted": BAEGarg2019}[name]
    attack = recipe.build(stock_wrapper(victim))
    if name == "bae-counterfitted":  # what the ticket papers' code changes in BAE, and Table 6
        attack.constraints[-1].threshold = 0.2
        attack.constraints.insert(1, MaxWordsPerturbed(max_percent=0.9))
    assert_parity(by_stock(attack, rows), by_us(victim, rows, threat))


@pytest.mark.usefixtures("encoder_of_the_papers", "stop_words")
def test_the_true_bert_attack(victim, rows, masked_lm, tmp_path, monkeypatch):
    from textattack.attack_recipes import BERTAttackLi2020
    from textattack.attack_recipes import bert_attack_li_2020 as recipe
    from textattack.transformations import WordSwapMaskedLM

    folder = tmp_path / "masked-lm"
    masked_lm.model.save_pretrained(folder)
    masked_lm.tokenizer.save_pretrained(folder)
    monkeypatch.setenv("TUNE_TICKETS_MASKED_LM", str(folder))
    own = {"masked_language_model": masked_lm.model, "tokenizer": masked_lm.tokenizer, "max_length": MAX_LENGTH}
    monkeypatch.setattr(recipe, "WordSwapMaskedLM", lambda **options: WordSwapMaskedLM(**options, **own))
    attack = BERTAttackLi2020.build(stock_wrapper(victim))
    assert_parity(by_stock(attack, rows), by_us(victim, rows, get_threat("bert-attack"), masked_lm=masked_lm))
