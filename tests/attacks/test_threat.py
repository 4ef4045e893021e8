import subprocess
import sys
from dataclasses import replace

import pytest

from tune_tickets.attacks.threat import ANTONYMS_VARIABLE, KNOWN_THREATS, get_threat
from tune_tickets.errors import ConfigError, ResourceError


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"textfooler/stock.*textfooler/minilm, textbugger/minilm"):
        get_threat("textfooler/stock")


def test_every_known_name_has_its_own_fingerprint_which_does_not_change_between_calls():
    fingerprints = [get_threat(name).fingerprint for name in KNOWN_THREATS]
    assert len(set(fingerprints)) == len(KNOWN_THREATS)
    assert fingerprints == [get_threat(name).fingerprint for name in KNOWN_THREATS]


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": "textbugger"},
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
