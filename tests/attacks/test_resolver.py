"""Where resources are looked up, in which order, and the messages if they are missing."""

import gzip
import hashlib
import json
import os
import zipfile

import pytest

from tune_tickets.attacks import resolver as contents
from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import RESOURCES, find_resource
from tune_tickets.attacks.threat import THREATS
from tune_tickets.errors import ConfigError, ResourceError

TAGSET = "NN\tNOUN\nVB\tVERB\n"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """An empty machine: own cache, own home, own NLTK_DATA."""
    for name in ("cache", "home", "nltk"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    monkeypatch.setenv("TUNE_TICKETS_OFFLINE", "1")
    for resource in RESOURCES.values():
        if resource.variable:
            monkeypatch.delenv(resource.variable, raising=False)
    return tmp_path


def package(path, member, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"universal_tagset/{member}", text)
    return path


def test_the_explicit_path_goes_before_the_cache_and_the_cache_before_nltk_data(places, monkeypatch):
    nltk = package(places / "nltk" / "taggers" / "universal_tagset.zip", "en-ptb.map", TAGSET)
    assert resolve("universal tagset").path == nltk
    kept = package(places / "cache" / "resources" / "universal_tagset.zip", "en-ptb.map", TAGSET + "JJ\tADJ\n")
    assert resolve("universal tagset").path == kept
    explicit = package(places / "mine.zip", "en-ptb.map", TAGSET)
    monkeypatch.setenv("TUNE_TICKETS_TAGSET", str(explicit))
    assert resolve("universal tagset").path == explicit


def test_the_identity_is_that_of_the_content_however_it_is_packed(places, monkeypatch):
    zipped = package(places / "nltk" / "taggers" / "universal_tagset.zip", "en-ptb.map", TAGSET)
    expected = f"universal_tagset sha256:{hashlib.sha256(TAGSET.encode()).hexdigest()[:12]}"
    assert resolve("universal tagset").identity == expected
    zipped.unlink()
    folder = places / "nltk" / "taggers" / "universal_tagset"
    folder.mkdir()
    (folder / "en-ptb.map").write_text(TAGSET)
    assert resolve("universal tagset").identity == expected
    (places / "plain.map").write_text(TAGSET)
    monkeypatch.setenv("TUNE_TICKETS_TAGSET", str(places / "plain.map"))
    assert resolve("universal tagset").identity == expected


def test_a_gzipped_list_is_the_list(places, monkeypatch):
    text = json.dumps({"good": ["fine"]})
    (places / "a.json").write_text(text)
    (places / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    identities = set()
    for name in ("a.json", "a.json.gz"):
        monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(places / name))
        identities.add(resolve("counter-fitted neighbours").identity)
    assert identities == {f"counterfitted_neighbors sha256:{hashlib.sha256(text.encode()).hexdigest()[:12]}"}


def test_the_identity_of_several_files_is_the_sum_over_their_sums_in_order(places, monkeypatch):
    folder = places / "tagger"
    folder.mkdir()
    parts = ("weights", "tagdict", "classes")
    for part in parts:
        (folder / f"averaged_perceptron_tagger_eng.{part}.json").write_text(part)
    monkeypatch.setenv("TUNE_TICKETS_TAGGER", str(folder))
    sums = "\n".join(hashlib.sha256(part.encode()).hexdigest() for part in parts)
    assert resolve("tagger").identity.endswith(hashlib.sha256(sums.encode()).hexdigest()[:12])


def test_an_unchanged_file_is_hashed_once_and_a_changed_one_again(places, monkeypatch):
    file = places / "list.json"
    file.write_text('{"a": []}')
    os.utime(file, ns=(1, 1))
    monkeypatch.setenv("TUNE_TICKETS_NEIGHBOURS", str(file))
    first = resolve("counter-fitted neighbours").identity
    contents._digest.cache_clear()
    file.write_text('{"b": []}')
    os.utime(file, ns=(1, 1))  # same size and time: the sum of the first reading is taken from the cache folder
    assert resolve("counter-fitted neighbours").identity == first
    os.utime(file, ns=(2, 2))
    changed = hashlib.sha256(b'{"b": []}').hexdigest()
    assert resolve("counter-fitted neighbours").identity == f"counterfitted_neighbors sha256:{changed[:12]}"


def test_what_is_missing_offline_is_said_with_the_places_and_the_ways(places):
    with pytest.raises(ResourceError) as error:
        resolve("counter-fitted vectors")
    message = str(error.value)
    assert "TUNE_TICKETS_COUNTER_FITTED: not set" in message
    assert str(places / "cache" / "resources" / "counter-fitted-vectors.txt.zip") in message
    assert "tune-tickets fetch counter-fitted-vectors" in message
    with pytest.raises(ResourceError) as error:
        resolve("counter-fitted neighbours", offline=False)
    assert "it cannot be fetched" in str(error.value)
    assert "tune-tickets fetch" not in str(error.value)


def test_an_incomplete_copy_is_told_from_an_absent_one(places):
    package(places / "cache" / "resources" / "stopwords.zip", "german", "und")
    with pytest.raises(ResourceError, match=r"stopwords\.zip: lacks english"):
        resolve("stop words")


def test_an_explicit_path_that_holds_nothing_is_an_error_even_if_another_place_has_it(places, monkeypatch):
    package(places / "nltk" / "taggers" / "universal_tagset.zip", "en-ptb.map", TAGSET)
    monkeypatch.setenv("TUNE_TICKETS_TAGSET", str(places / "nowhere"))
    with pytest.raises(ResourceError, match=r"TUNE_TICKETS_TAGSET names .*nowhere.* correct or unset it"):
        resolve("universal tagset")
    monkeypatch.setenv("TUNE_TICKETS_TAGGER", str(places / "nltk"))
    with pytest.raises(ResourceError, match=r"lacks averaged_perceptron_tagger_eng\.weights\.json"):
        resolve("tagger")


def test_a_masked_lm_is_a_folder_or_what_the_hubs_cache_holds(places, monkeypatch, tiny_backbone):
    monkeypatch.setenv("TUNE_TICKETS_MASKED_LM", str(tiny_backbone))
    found = resolve("masked lm")
    assert found.path == tiny_backbone
    assert found.members[-1] == "model.safetensors"
    monkeypatch.setenv("TUNE_TICKETS_MASKED_LM", "nobody/nothing")
    with pytest.raises(ResourceError, match="nobody/nothing: not in the hub's cache"):
        resolve("masked lm")


def test_the_bundled_encoder_is_always_there(places):
    assert resolve("sentence encoder").identity == "all-MiniLM-L6-v2 sha256:53aa51172d14"


def test_names_are_known_in_every_spelling_and_the_tables_fit_together():
    assert find_resource("Universal_Tagset") is find_resource("universal-tagset") is RESOURCES["universal tagset"]
    with pytest.raises(ConfigError, match="unknown resource 'parser': known are"):
        find_resource("parser")
    assert {name for threat in THREATS.values() for name in threat.needs} <= set(RESOURCES)
