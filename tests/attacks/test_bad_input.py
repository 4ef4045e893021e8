"""Unusual texts are attacked with a real, tiny network and the real tokenizer and encoder, counted and kept."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from tune_tickets.attacks.records import AttackRow, figures, pieces, read_parquet, sample_substitutions, write_parquet
from tune_tickets.attacks.run import attack_rows
from tune_tickets.attacks.threat import get_threat
from tune_tickets.attacks.victim import SEPARATOR, Victim

pytestmark = pytest.mark.integration

POSITIONS = 64
BUDGET = 60
ODD = {
    "empty": "",
    "white space": " \t\r\n\u00a0\u2003",
    "one word": "wonderful",
    "one letter": "a",
    "a thousand words": " ".join(f"{word} picture" for word in ["wonderful", "dull", "moving", "slow", "bright"] * 100),
    "one endless word": "x" * 20_000,
    "longer than the model reads": "The director has made a wonderful film about ordinary people. " * 40,
    "emoji": "👍🏽 great film 😀😀 👨‍👩‍👧 🇩🇪",
    "Chinese": "这部电影真的很好看，演员非常出色。",
    "Arabic and Hindi": "فيلم رائع جدا यह फ़िल्म अच्छी है",
    "control characters": "\x00\x01 a \x1b[31mgood\x1b[0m \x07 film\x85 \x7f here",
    "turned letters": "a \u202egood\u202c film \u200b\ufeff here",
    "lone surrogates": "\ud800 a wonderful \udfff film",
    "only punctuation": ".... !!! --- '' \" ;;;",
    "only stop words": "it is what it was and he had been there",
    "only numbers": "1 22 333 4.5 10,000",
    "the private separator": f"a {SEPARATOR} wonderful{SEPARATOR}film",
    "TextAttack's separator": "a wonderful <SPLIT> film",
    "markup": "<br /> [bold]wonderful[/bold] {{film}} %s \\n",
    "combining marks": "e\u0301tude İstanbul ﬁne Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
}


@pytest.fixture(scope="module")
def victim(tokenizer):
    """A random network of two layers; its own answers are taken as labels, so that every row is attacked."""
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=POSITIONS,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = BertForSequenceClassification(config)
    return Victim(network.eval(), tokenizer, POSITIONS, batch_size=32)


def answers(victim, rows):
    cleaned = [tuple(text.encode("utf-8", "replace").decode().replace(SEPARATOR, " ") for text in row) for row in rows]
    return victim([row[0] if len(row) == 1 else row for row in cleaned]).argmax(dim=1).tolist()


def attack(victim, rows, threat, columns, attacked):
    return attack_rows(victim, rows, get_threat(threat, BUDGET), columns, attacked, ("neg", "pos"), seed=0).records


@pytest.mark.parametrize("threat", ["textfooler/minilm", "textbugger/minilm"])
def test_every_odd_text_is_attacked_counted_and_kept(victim, threat, tmp_path):
    texts = [(text,) for text in ODD.values()]
    labels = answers(victim, texts)
    rows = [AttackRow(index, text, label) for index, (text, label) in enumerate(zip(texts, labels, strict=True))]
    rows += [AttackRow(100 + row.index, row.texts, 1 - row.label) for row in rows]
    records = attack(victim, rows, threat, ("text",), "text")

    assert [record.index for record in records] == [row.index for row in rows]
    assert [record.status for record in records[len(ODD) :]] == ["skipped"] * len(ODD)
    for name, record in zip(ODD, records, strict=False):
        assert record.status in ("failed", "successful"), name
        assert 1 <= record.queries <= BUDGET, name
        assert 0.0 <= record.words_changed <= 100.0, name
        if record.status == "successful":
            assert -1.0 <= record.similarity <= 1.0001, name
        else:
            assert record.similarity is None, name
        for text in (*record.texts, *record.perturbed_texts):
            assert text.encode("utf-8").decode("utf-8") == text
            assert SEPARATOR not in text
        shown = pieces(record.texts[0], record.perturbed_texts[0])
        assert "".join(piece.new for piece in shown) == record.perturbed_texts[0], name
    for name in ("empty", "white space", "only punctuation", "only stop words", "one endless word"):
        record = records[list(ODD).index(name)]
        assert record.perturbed_texts == record.texts, f"{name}: nothing there may be changed"
        assert record.status == "failed"

    measured = figures(records, threat, "f")
    assert (measured.rows, measured.skipped, len(measured.survived)) == (2 * len(ODD), len(ODD), 2 * len(ODD))
    write_parquet(records, tmp_path / "odd.parquet")
    assert read_parquet(tmp_path / "odd.parquet") == records
    assert all(one.row < 100 for one in sample_substitutions(records, seed=0))


@pytest.mark.parametrize("attacked", ["premise", "hypothesis"])
def test_in_a_pair_of_odd_texts_the_locked_one_stays_as_it_was(victim, attacked):
    columns = ("premise", "hypothesis")
    names = list(ODD)
    pairs = [(ODD[name], ODD[names[-1 - place]]) for place, name in enumerate(names)]
    labels = answers(victim, pairs)
    rows = [AttackRow(index, pair, label) for index, (pair, label) in enumerate(zip(pairs, labels, strict=True))]
    records = attack(victim, rows, "textbugger/minilm", columns, attacked)
    locked = 1 - columns.index(attacked)
    assert len(records) == len(ODD)
    assert any(record.perturbed_texts != record.texts for record in records), "something was changed at all"
    for record in records:
        assert record.perturbed_texts[locked] == record.texts[locked]
