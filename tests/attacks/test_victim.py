import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from tune_tickets.attacks.victim import Victim

TEXTS = ["a film", "", "a very long and rather dull film about nothing at all", "good!", "😀", "a film"]
PAIRS = [(text, text[::-1] + " end") for text in TEXTS]


@pytest.fixture(scope="module")
def tiny_bert(tokenizer):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    return BertForSequenceClassification(config)


@pytest.mark.parametrize("texts", [TEXTS, PAIRS], ids=["texts", "pairs"])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_batches_give_what_each_text_gives_alone_in_the_given_order(tiny_bert, tokenizer, texts, batch_size):
    logits = Victim(tiny_bert, tokenizer, 32, batch_size)(texts)
    tiny_bert.eval()
    for text, row in zip(texts, logits, strict=True):
        columns = (text,) if isinstance(text, str) else text
        encoded = tokenizer(*columns, truncation=True, max_length=32, return_tensors="pt")
        with torch.no_grad():
            alone = tiny_bert(**encoded).logits[0].double()
        torch.testing.assert_close(row, alone, atol=1e-6, rtol=0)


def test_answers_that_cannot_be_compared_are_an_error(counting_victim):
    victim = counting_victim({})
    for bias in (float("nan"), float("inf")):
        victim.model.bias = bias
        with pytest.raises(ValueError, match="not finite"):
            victim(TEXTS)


def test_a_model_left_in_training_is_set_to_evaluation(tiny_bert, tokenizer):
    tiny_bert.train()
    first, second = (Victim(tiny_bert, tokenizer, 32, 4)(TEXTS) for _ in range(2))
    assert not tiny_bert.training
    assert torch.equal(first, second)


def test_padding_reaches_only_to_the_longest_text_of_a_batch_sorted_by_length(counting_victim):
    victim = counting_victim({}, batch_size=2)
    victim(["one two three four five", "one", "one two three four", "one two"])
    assert victim.model.shapes == [(2, 7), (2, 4)]  # two special tokens each


def test_a_long_text_is_cut_at_max_length(counting_victim):
    victim = counting_victim({}, max_length=10)
    victim(["word " * 1000])
    assert victim.model.shapes == [(1, 10)]
