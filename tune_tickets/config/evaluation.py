"""`evaluation:` and `controls:`: how a trained ticket is measured, and what it is compared with."""

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from tune_tickets.config.section import LearningRate, Ratio, Section
from tune_tickets.config.training import Optimisation


class Fitting(Optimisation):
    """A masked-LM head fitted on the backbone from plain text; not needed if the checkpoint has one."""

    held_out: int = Field(200, ge=1, description="Number of other texts on which its accuracy is measured")
    max_length: int = Field(64, ge=8, le=4096, description="Tokens per text or block")
    blocks: bool = Field(False, description="Join the texts and cut them into blocks of max_length")
    mask_probability: Ratio = Field(0.15, gt=0.0, description="Share of tokens to predict while fitting")
    epochs: float = Field(1.0, gt=0.0, le=100.0, description="Passes over the texts; can be a fraction")
    batch_size: int = Field(16, ge=1, le=4096, description="Texts per optimizer step")
    train_backbone: bool = Field(True, description="Whether to train the backbone too, or only the head")
    learning_rate: LearningRate = Field(3e-4, description="AdamW learning rate of the backbone")
    head_learning_rate: LearningRate = Field(1e-3, description="The same for the new head")

    def fitting_inputs(self) -> dict[str, Any]:
        """Return what the fitted model depends on, except its texts and the backbone."""
        return self.model_dump(mode="json", include=set(Fitting.model_fields))


class MaskedLM(Fitting):
    """The masked language model of an attack: its texts, its size and how its head is fitted."""

    corpus: str = Field(
        "task",
        min_length=1,
        description="'task' (its training texts), 'bundled/reviews', 'bundled/rotten-tomatoes', 'bundled/imdb', a hub "
        "id and subset as 'id:subset', or a text file (a text per line, also .gz) or a folder of them",
    )
    layers: int | None = Field(
        None, ge=1, le=96, description="Use the first n layers of the backbone; null: as in model.layers"
    )
    rows: int = Field(4000, ge=1, description="Largest number of texts to fit it on, a seeded sample")


class Probe(Section):
    """A cheap measure of robustness for the scheduler: accuracy under PGD in embedding space, after every epoch."""

    rows: int = Field(64, ge=1, description="Number of select rows")
    steps: int = Field(2, ge=1, le=100, description="Ascent steps")
    step_size: float = Field(0.2, gt=0.0, le=10.0, description="Length of one ascent step (L2, per example)")


class Attack(Section):
    """A threat model with changed parameters (RobustT Table 6); null: the value of the named threat model."""

    name: str = Field(description="Name of the threat model")
    max_candidates: int | None = Field(None, ge=1, le=1000, description="N, substitutes to try per word")
    min_word_cosine: float | None = Field(None, ge=-1.0, le=1.0, description="Smallest cosine of word and substitute")
    min_similarity: float | None = Field(None, ge=-1.0, le=1.0, description="S, smallest similarity of the texts")
    window: int | None = Field(None, ge=1, description="Number of words around a change that are compared")
    max_modified: Ratio | None = Field(None, description="M, largest share of words that may change")
    max_words: int | None = Field(None, ge=1, description="Largest number of words that may change")
    max_edits: int | None = Field(None, ge=1, description="Largest edit distance; charmer: k, edits of one character")
    slots: int | None = Field(None, ge=1, description="charmer: n, places in which every character is tried")
    focus: int | None = Field(None, ge=1, description="charmer-focus: probe this many words, the most important ones")
    spare: bool | None = Field(
        None, description="charmer: keep short words and first and last letters, edit each word once"
    )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that differ from the named threat model."""
        return self.model_dump(exclude={"name"}, exclude_none=True)


class Evaluation(Section):
    """How tickets are evaluated and attacked on the select rows."""

    attacks: tuple[str | Attack, ...] = Field(
        ("textfooler/minilm", "textbugger/minilm"),
        min_length=1,
        description="Threat models, by name or as a mapping of name and parameters",
    )
    suite: bool = Field(
        False,
        description="Run the threat models in this order, each only on the rows that withstood those before it; aua is "
        "then the share of rows that withstand all of them, instead of the mean over threat models",
    )
    rows: int = Field(100, ge=1, description="Number of select rows to attack, a seeded stratified sample")
    query_budget: int | None = Field(
        None, ge=1, description="Queries per example before an attack gives up; null: no limit"
    )
    shard: int = Field(
        64, ge=1, description="Rows that one stage attacks together; several shards run in parallel on free workers"
    )
    early_exit: bool = Field(
        False, description="Stop attacking a ticket that can no longer beat the best one (checked after every shard)"
    )
    batch_size: int = Field(64, ge=1, le=4096, description="Rows per forward pass")
    probe: Probe = Field(default_factory=Probe)
    masked_lm: MaskedLM = Field(default_factory=MaskedLM, description="The masked language model of bert-attack/minilm")

    @model_serializer(mode="wrap")
    def _without_default_suite(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The digest of the configuration covers what is written here. The default must not change it.
        found: dict[str, Any] = write(self)
        return {name: value for name, value in found.items() if name != "suite" or value}


class Controls(Section):
    """Models to compare the tickets with."""

    dense: bool = Field(True, description="Train the whole model with the same retraining, and attack it")
    random: bool = Field(False, description="Train and attack random tickets that are as sparse as the found ones")
    random_seeds: int = Field(1, ge=1, le=20, description="Number of random tickets per sparsity")
    random_of: Literal["winner", "front", "all"] = Field(
        "winner",
        description="Whose sparsity of every layer they copy: that of the winner, of the winner and the front, or of "
        "all that were measured; all adds a line of random tickets to the pictures over sparsity",
    )
    epochs: bool = Field(
        False,
        description="Attack the winner and the dense control after every epoch of training (RobustT Fig. 4); both are "
        "trained once more for this",
    )
