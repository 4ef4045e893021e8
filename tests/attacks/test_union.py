"""The union of word sources, and characters that a reader does not see."""

import json

import pytest

from tune_tickets.attacks.run import AttackRow, attack_rows
from tune_tickets.attacks.threat import get_threat, named
from tune_tickets.attacks.word_rules import opposed, polarity, word_forms
from tune_tickets.errors import ResourceError

pytestmark = pytest.mark.usefixtures("toolkit")

BASE = "words/near50-forms"
WORDS = ("loved", "film", "boring", "beautiful", "stories", "performance", "makes", "clever")


def substitutes(threat, victim, words=WORDS):
    from tune_tickets.attacks.recipes import Recipe

    swap = Recipe.of(victim, threat, 0).transformation
    return {word: swap._get_replacement_words(word) for word in words}


def test_inflections_are_those_of_all_lemmas():
    assert word_forms("loved") == ("love", "loves", "loving")
    assert set(word_forms("mice")) == {"mouse"}
    assert word_forms("qwzx") == ()


def test_the_union_holds_the_neighbours_and_the_inflections_without_repeats(counting_victim):
    victim = counting_victim({})
    near = substitutes(get_threat("textfooler/minilm", max_candidates=1000), victim)
    union = substitutes(get_threat(BASE), victim)
    for word in WORDS:
        assert set(near[word][:50]) <= set(union[word])
        assert len(set(union[word])) == len(union[word])
        assert word not in union[word]
    assert {"love", "loves", "loving"} <= set(union["loved"])
    assert sum(map(len, union.values())) > 2 * sum(map(len, near.values()))


def test_opposites_are_kept_out_of_every_source(counting_victim, tmp_path, monkeypatch):
    lists = tmp_path / "neighbours.json"
    lists.write_text(json.dumps({"boring": ["enjoyable", "exciting", "tedious", "the", "run"], "film": ["Flick"]}))
    monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(lists))
    victim = counting_victim({})
    plain, union = (substitutes(get_threat(name), victim) for name in (BASE, f"{BASE}-cf8"))
    assert set(union["boring"]) - set(plain["boring"]) <= {"tedious"}
    assert "flick" in union["film"]
    for word, found in union.items():
        assert all(polarity(word) == polarity(other) and not opposed(word, other) for other in found)


def test_wordnet_adds_its_synonyms(counting_victim):
    try:
        threat = get_threat(f"{BASE}-wordnet")
    except ResourceError as error:
        pytest.skip(str(error).splitlines()[0])
    union = substitutes(threat, counting_victim({}))
    assert "picture" in union["film"]  # of the synset movie.n.01


def test_the_plain_union_depends_on_nothing_that_a_machine_may_lack(tmp_path, monkeypatch):
    before = get_threat(BASE)
    lists = tmp_path / "neighbours.json"
    lists.write_text("{}")
    monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(lists))
    assert get_threat(BASE).fingerprint == before.fingerprint
    assert before.needs == ()
    assert named(f"{BASE}-wordnet-cf8").needs == ("counter-fitted neighbours", "wordnet")
    assert named(f"{BASE}-mlm").fits_masked_lm


@pytest.mark.integration
def test_a_masked_language_model_may_add_words_but_no_opposites(counting_victim, tokenizer):
    import torch
    from textattack.shared import AttackedText
    from transformers import BertConfig, BertForMaskedLM

    from tune_tickets.attacks.masked_words import MaskedLM
    from tune_tickets.attacks.neighbours import is_substitute
    from tune_tickets.attacks.recipes import Recipe

    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **size)).eval()
    with torch.no_grad():
        for number, word in enumerate(("terrible", "superb", "nice")):
            model.cls.predictions.bias[tokenizer.get_vocab()[word]] = 50.0 - number
    masked_lm = MaskedLM(model, tokenizer, "for a test")
    threat = get_threat(f"{BASE}-mlm", masked_lm=masked_lm.identity)
    recipe = Recipe.of(counting_victim({}), threat, 0, None, masked_lm)
    texts = recipe.transformation.transformations[1]._get_transformations(AttackedText("a good film"), [1])
    proposed = {text.words[1] for text in texts}
    assert proposed
    assert "terrible" not in proposed
    assert all(is_substitute("good", word) for word in proposed)


ROW = AttackRow(0, ("a good film",), 1)


@pytest.mark.parametrize("part", ["homoglyphs", "deletions", "reorderings"])
def test_a_change_that_nobody_sees_fools_a_model_that_reads_codes(part, counting_victim):
    victim = counting_victim({"good": 4.0}, bias=-1.0)
    found = attack_rows(
        victim, [ROW], get_threat(f"bad-characters/{part}"), ("text",), "text", ("neg", "pos"), 0
    ).records[0]
    assert found.status == "successful"
    assert shown(found.perturbed_texts[0]) == ROW.texts[0]


def shown(text):
    """What a screen shows: backspaces and directions carried out, lookalikes as the letters they look like."""
    from tune_tickets.attacks.parts import LOOKALIKES

    lines = ""
    for character in text:
        lines = lines[:-1] if character == "\b" else lines + character
    # Two characters between right-to-left marks: the second is shown first.
    left, mark, rest = lines.partition("\u202d\u2066\u202e\u2066")
    if mark:
        second, rest = rest.split("\u2069\u2066", 1)
        first, rest = rest.split("\u2069\u202c\u2069\u202c", 1)
        lines = left + first + second + rest
    back = {fake: letter for letter, fake in LOOKALIKES.items()}
    return "".join(back.get(character, character) for character in lines)


def test_tokenizers_like_berts_drop_invisible_characters(counting_victim):
    victim = counting_victim({"good": 4.0}, bias=-1.0)
    threat = get_threat("bad-characters/invisible")
    found = attack_rows(victim, [ROW], threat, ("text",), "text", ("neg", "pos"), 0).records[0]
    assert found.status == "failed"
    assert found.queries > 10


@pytest.mark.parametrize("most", [1, 2])
def test_at_most_so_many_words_change(most, counting_victim):
    words = {"good": 1.0, "great": 1.0, "fine": 1.0}
    victim = counting_victim(words, bias=-1.5)
    row = AttackRow(0, ("good great fine",), 1)
    threat = get_threat("bad-characters/deletions", max_words=most)
    found = attack_rows(victim, [row], threat, ("text",), "text", ("neg", "pos"), 0).records[0]
    assert found.status == ("successful" if most == 2 else "failed")
    assert (
        sum(old != new for old, new in zip(row.texts[0].split(), found.perturbed_texts[0].split(), strict=True)) == most
    )
