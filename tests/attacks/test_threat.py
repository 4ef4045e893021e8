import subprocess
import sys
from dataclasses import replace

import pytest

from tune_tickets.attacks.threat import ANTONYMS_VARIABLE, KNOWN_THREATS, get_threat, named
from tune_tickets.errors import ConfigError, ResourceError


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(
        ConfigError, match=r"textfooler/stock.*textfooler, textbugger, .*textfooler/minilm, textbugger/minilm"
    ):
        get_threat("textfooler/stock")


def test_every_known_name_has_its_own_fingerprint_which_does_not_change_between_calls():
    fingerprints = [named(name).fingerprint for name in KNOWN_THREATS]
    assert len(set(fingerprints)) == len(KNOWN_THREATS)
    assert fingerprints == [named(name).fingerprint for name in KNOWN_THREATS]
    assert get_threat("textfooler/minilm").fingerprint == get_threat("textfooler/minilm").fingerprint


def test_the_settings_of_the_papers_are_those_of_robustt_table_6():
    neighbours = {name: named(name).max_candidates for name in ("textfooler", "textbugger", "bae-counterfitted")}
    assert neighbours == {"textfooler": 50, "textbugger": 5, "bae-counterfitted": 50}
    similarity = {name: named(name).min_similarity for name in neighbours}
    assert similarity == {"textfooler": pytest.approx(0.84, abs=0.001), "textbugger": 0.8, "bae-counterfitted": 0.2}
    assert named("bae-counterfitted").max_modified == 0.9


def test_parameters_can_be_set_and_show_in_name_and_fingerprint():
    threat = get_threat("textfooler/minilm", max_candidates=20, max_modified=0.3)
    assert (threat.max_candidates, threat.max_modified) == (20, 0.3)
    assert threat.name == "textfooler/minilm:max_candidates:20:max_modified:0.3"
    assert threat.fingerprint != get_threat("textfooler/minilm").fingerprint
    assert get_threat("textfooler/minilm", max_candidates=8) == get_threat("textfooler/minilm")


def test_a_parameter_the_recipe_does_not_have_is_refused_with_those_it_has():
    with pytest.raises(ConfigError, match=r"'pwws' has no window: settable are max_modified"):
        named("pwws", window=5)
    with pytest.raises(ConfigError, match=r"has no swaps: settable are max_candidates, .*max_modified"):
        named("textfooler/minilm", swaps=1)


def test_what_must_be_fetched_is_told_by_the_parts():
    assert named("textfooler/minilm").needs == ()
    assert named("deepwordbug/local").needs == ()
    assert named("textfooler/cf8").needs == ("counter-fitted neighbours",)
    assert named("pwws").needs == ("wordnet", "stop words")
    assert set(named("bert-attack").needs) == {"masked lm", "stop words", "universal sentence encoder"}
    assert named("bert-attack/minilm").fits_masked_lm
    assert not named("bert-attack").fits_masked_lm


def test_a_fitted_masked_lm_is_part_of_the_fingerprint_and_must_be_named():
    first, second = (get_threat("bert-attack/minilm", masked_lm=name) for name in ("one", "two"))
    assert first.fingerprint != second.fingerprint
    with pytest.raises(ResourceError, match=r"needs a masked language model that a search fits"):
        get_threat("bert-attack/minilm")


@pytest.mark.parametrize(
    "change",
    [
        {"swaps": "bugs"},
        {"words": "cf8"},
        {"ranking": "unk"},
        {"stop_words": "nltk"},
        {"max_modified": 0.5},
        {"max_candidates": 9},
        {"min_word_cosine": 0.38},
        {"min_similarity": 0.81},
        {"window": 16},
        {"query_budget": 100},
        {"resources": {"toolkit": "textattack 0.3.10"}},
    ],
)
def test_any_change_of_a_parameter_or_resource_changes_the_fingerprint(change):
    threat = get_threat("textfooler/minilm")
    assert replace(threat, **change).fingerprint != threat.fingerprint


def test_a_query_budget_given_by_name_is_part_of_the_fingerprint():
    limited = get_threat("textfooler/minilm", query_budget=50)
    assert limited.query_budget == 50
    assert limited.fingerprint != get_threat("textfooler/minilm").fingerprint
    assert limited.fingerprint != get_threat("textfooler/minilm", query_budget=51).fingerprint


def test_the_toolkit_and_its_version_are_among_the_resources():
    assert get_threat("textbugger/minilm").resources["toolkit"] == "textattack 0.3.11"


def test_a_second_antonym_file_is_named_by_its_content(tmp_path, monkeypatch):
    plain = get_threat("textfooler/minilm")
    extra = tmp_path / "more.txt"
    monkeypatch.setenv(ANTONYMS_VARIABLE, str(extra))
    with pytest.raises(ResourceError, match=r"TUNE_TICKETS_ANTONYMS names .*more\.txt"):
        get_threat("textfooler/minilm")
    extra.write_text("glib / earnest\n")
    first = get_threat("textfooler/minilm")
    extra.write_text("glib / sober\n")
    second = get_threat("textfooler/minilm")
    assert len({plain.fingerprint, first.fingerprint, second.fingerprint}) == 3


def test_naming_a_threat_model_imports_nothing_heavy():
    code = (
        "import sys; from tune_tickets.attacks.threat import get_threat; get_threat('textbugger/minilm').fingerprint;"
        "heavy = {'torch', 'transformers', 'textattack', 'sklearn', 'lemminflect'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
