"""The plain texts of a masked language model in the store, so that every worker sees the same ones."""

import json

from tune_tickets.config import Settings
from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.orticket import ORTicket
from tune_tickets.config.task import Model
from tune_tickets.data.corpus import read_corpus, sample_texts, texts_in_order
from tune_tickets.data.task import Example
from tune_tickets.engine.execution import StageContext
from tune_tickets.engine.quarantine import whole
from tune_tickets.engine.stage import Stage, StageKey, digest_of
from tune_tickets.engine.store import Store
from tune_tickets.errors import DataError

TASK = "task"
_FILE = "texts.json"


def corpus_texts(settings: Settings, train: tuple[Example, ...]) -> tuple[str, ...]:
    """The texts that `evaluation.masked_lm` asks for, those held out first."""
    wanted = settings.evaluation.masked_lm
    source = (text for row in train for text in row.texts) if wanted.corpus == TASK else read_corpus(wanted.corpus)
    texts = sample_texts(source, wanted.rows + wanted.held_out, settings.seed)
    if len(texts) <= wanted.held_out:
        raise DataError(
            f"evaluation.masked_lm: the corpus {wanted.corpus!r} has {len(texts)} different texts, and "
            f"{wanted.held_out} are held out to measure on. Lower evaluation.masked_lm.held_out or bring more texts."
        )
    return texts


def search_texts(method: ORTicket, seed: int) -> tuple[str, ...]:
    """The texts that a ticket is searched on, in reading order; the first ones measure a head that has to be fitted."""
    texts = texts_in_order(read_corpus(method.corpus), method.rows, seed)
    if len(texts) <= method.head.held_out:
        raise DataError(
            f"method: the corpus {method.corpus!r} gives {len(texts)} texts, and {method.head.held_out} are held out "
            "to measure the masked-LM head on. Lower method.head.held_out, or raise method.rows or bring more texts."
        )
    return texts


def corpus_stage(texts: tuple[str, ...]) -> Stage:
    """The texts as a stage: their content is their identity."""
    return Stage("corpus", {"fingerprint": digest_of(texts)})


def keep_corpus(store: Store, texts: tuple[str, ...]) -> None:
    """Put the texts into the store, unless they are there."""
    stage = corpus_stage(texts)
    if not whole(store, stage):
        attempt = store.begin(stage)
        attempt.put(_FILE, json.dumps(texts).encode())
        attempt.finish({"texts": len(texts)}, seconds=0.0)


def load_corpus(context: StageContext) -> list[str]:
    """The texts a stage works on."""
    texts: list[str] = json.loads(context.store.read(context.upstream("corpus"), _FILE))
    return texts


def masked_lm_model(settings: Settings) -> Model:
    """The backbone under the head: the experiment's, perhaps with fewer layers."""
    layers = settings.evaluation.masked_lm.layers
    return settings.model if layers is None else settings.model.model_copy(update={"layers": layers})


def masked_lm_stage(settings: Settings, model_fingerprint: str, corpus: StageKey) -> Stage:
    """The fitting of a masked language model on the backbone; its digest tells who proposed an attack's words."""
    model = masked_lm_model(settings)
    return _fitting_stage(settings.seed, model, model_fingerprint, settings.evaluation.masked_lm, corpus)


def searched_lm_stage(settings: Settings, method: ORTicket, model_fingerprint: str, corpus: StageKey) -> Stage:
    """The masked language model that a search on masked text starts from; its head is fitted if there is none."""
    return _fitting_stage(settings.seed, settings.model, model_fingerprint, method.head, corpus)


def _fitting_stage(seed: int, model: Model, model_fingerprint: str, fitting: Fitting, corpus: StageKey) -> Stage:
    inputs = {
        "seed": seed,
        "model": model.model_dump(mode="json"),
        "model_fingerprint": model_fingerprint,
        "masked_lm": fitting.fitting_inputs(),
    }
    return Stage("masked_lm", inputs, {"corpus": corpus})
