"""WordNet from Debian's packages, and in the format of NLTK."""

import shutil
import zipfile
from pathlib import Path

import pytest

from tune_tickets.attacks.resolver import resolve
from tune_tickets.attacks.resource_table import WORDNET_FILES
from tune_tickets.attacks.word_resources import lexnames, wordnet
from tune_tickets.errors import ResourceError

DEBIAN = Path("/usr/share/wordnet")
needs_debian = pytest.mark.skipif(
    not all((DEBIAN / file).is_file() for file in WORDNET_FILES),
    reason="no WordNet in /usr/share/wordnet: apt-get install wordnet-base wordnet-sense-index",
)


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))


def test_lexnames_are_the_45_lexicographer_files_of_the_manual_page():
    lines = lexnames().splitlines()
    assert len(lines) == 45
    # lexnames(5WN)
    assert [lines[number] for number in (0, 1, 2, 3, 18, 28, 29, 43, 44)] == [
        "00\tadj.all\t3",
        "01\tadj.pert\t3",
        "02\tadv.all\t4",
        "03\tnoun.Tops\t1",
        "18\tnoun.person\t1",
        "28\tnoun.time\t1",
        "29\tverb.body\t2",
        "43\tverb.weather\t2",
        "44\tadj.ppl\t3",
    ]


@needs_debian
def test_debians_wordnet_is_read_by_nltk_with_categories_and_without_the_network(monkeypatch, tmp_path):
    import socket

    def refuse(*arguments):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    reader = wordnet()
    assert wordnet() is reader
    film = reader.synsets("film")[0]
    assert {"movie", "film", "picture"} <= set(film.lemma_names(lang="eng"))
    assert film.lexname() == "noun.communication"
    assert reader.synsets("beautiful", pos="a")[0].lemmas()[0].antonyms()[0].name() == "ugly"
    assert reader.morphy("mice") == "mouse"
    [copy] = (tmp_path / "cache" / "resources" / "unpacked").iterdir()
    assert {file.name for file in copy.iterdir()} == {*WORDNET_FILES, "lexnames"}


@needs_debian
def test_a_zipped_package_has_the_identity_of_its_files_and_is_unpacked_to_be_read(monkeypatch, tmp_path):
    monkeypatch.setenv("TUNE_TICKETS_WORDNET", str(DEBIAN))
    debian = resolve("wordnet")
    with zipfile.ZipFile(tmp_path / "wordnet.zip", "w") as archive:
        for file in WORDNET_FILES:
            archive.write(DEBIAN / file, f"wordnet/{file}")
    monkeypatch.setenv("TUNE_TICKETS_WORDNET", str(tmp_path / "wordnet.zip"))
    assert resolve("wordnet").identity == debian.identity
    assert wordnet().synsets("film")[0].lexname() == "noun.communication"


@needs_debian
def test_half_of_the_debian_packages_is_told_apart(monkeypatch, tmp_path):
    half = tmp_path / "half"
    half.mkdir()
    for file in WORDNET_FILES:
        if file != "index.sense":
            shutil.copy(DEBIAN / file, half)
    monkeypatch.setenv("TUNE_TICKETS_WORDNET", str(half))
    with pytest.raises(ResourceError, match=r"lacks index\.sense"):
        wordnet()
