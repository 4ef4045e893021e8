"""`evaluation:` and `controls:` what is measured of a trained ticket, and what it is compared with."""

from typing import Any, Literal

from pydantic import Field

from tune_tickets.config.section import LearningRate, Ratio, Section
from tune_tickets.config.training import Optimisation


class Fitting(Optimisation):
    """A masked-LM head fitted on the backbone from plain text; a checkpoint that has one is used as it is."""

    held_out: int = Field(200, ge=1, description="Further texts on which its accuracy is measured")
    max_length: int = Field(64, ge=8, le=4096, description="Tokens of a text, or of a block")
    blocks: bool = Field(False, description="Join the texts and cut them into blocks of max_length")
    mask_probability: Ratio = Field(0.15, gt=0.0, description="Share of tokens to be guessed while fitting")
    epochs: float = Field(1.0, gt=0.0, le=100.0, description="Passes over the texts, perhaps a part of one")
    batch_size: int = Field(16, ge=1, le=4096, description="Texts per optimizer step")
    train_backbone: bool = Field(True, description="Whether the backbone is trained along, or only the head")
    learning_rate: LearningRate = Field(3e-4, description="AdamW learning rate of the backbone")
    head_learning_rate: LearningRate = Field(1e-3, description="The same for the new head")

    def fitting_inputs(self) -> dict[str, Any]:
        """What the fitted model depends on beside its texts and the backbone."""
        return self.model_dump(mode="json", include=set(Fitting.model_fields))


class MaskedLM(Fitting):
    """The masked language model of an attack: its texts and size, and how its head is fitted."""

    corpus: str = Field(
        "task",
        min_length=1,
        description="'task' (its training texts), 'bundled/reviews', 'bundled/rotten-tomatoes', 'bundled/imdb', a hub "
        "id and subset as 'id:subset', or a text file (a text per line, also .gz) or a folder of them",
    )
    layers: int | None = Field(None, ge=1, le=96, description="Its first n layers of the backbone; null: as the model")
    rows: int = Field(4000, ge=1, description="Texts it is fitted on at most, a seeded sample")


class Probe(Section):
    """The cheap look at robustness that ASHA prunes by: accuracy under an embedding-space PGD after every epoch."""

    rows: int = Field(64, ge=1, description="Select rows probed")
    steps: int = Field(2, ge=1, le=100, description="Ascent steps")
    step_size: float = Field(0.2, gt=0.0, le=10.0, description="Length of one ascent step (L2, per example)")


class Attack(Section):
    """A threat model with parameters of its own (RobustT Table 6); null keeps what stands behind the name."""

    name: str = Field(description="Threat model by name")
    max_candidates: int | None = Field(None, ge=1, le=1000, description="N, substitutes tried per word")
    min_word_cosine: float | None = Field(None, ge=-1.0, le=1.0, description="Least cosine of word and substitute")
    min_similarity: float | None = Field(None, ge=-1.0, le=1.0, description="S, least similarity of the texts")
    window: int | None = Field(None, ge=1, description="Words around a change whose meaning is compared")
    max_modified: Ratio | None = Field(None, description="M, largest share of words that may change")

    def parameters(self) -> dict[str, Any]:
        """What differs from the threat model of that name."""
        return self.model_dump(exclude={"name"}, exclude_none=True)


class Evaluation(Section):
    """Attacks on the select rows."""

    attacks: tuple[str | Attack, ...] = Field(
        ("textfooler/minilm", "textbugger/minilm"),
        min_length=1,
        description="Threat models, by name or as a mapping of name and parameters",
    )
    rows: int = Field(100, ge=1, description="Select rows attacked, a seeded stratified sample")
    query_budget: int | None = Field(
        None, ge=1, description="Queries per example before an attack gives up; null: none"
    )
    shard: int = Field(
        64, ge=1, description="Rows attacked side by side in one stage; shards run on as many workers as there are"
    )
    early_exit: bool = Field(
        False, description="Stop attacking a ticket that can no longer beat the best one; checked after every shard"
    )
    batch_size: int = Field(64, ge=1, le=4096, description="Rows per forward pass")
    probe: Probe = Field(default_factory=Probe)
    masked_lm: MaskedLM = Field(
        default_factory=MaskedLM, description="How the masked language model of bert-attack/minilm is fitted"
    )


class Controls(Section):
    """Models that every ticket is compared with."""

    dense: bool = Field(True, description="Fine-tune and attack the whole model with the same retraining")
    random: bool = Field(False, description="Train and attack random tickets of the sparsity of found ones")
    random_seeds: int = Field(1, ge=1, le=20, description="How many random tickets of each sparsity")
    random_of: Literal["winner", "front", "all"] = Field(
        "winner",
        description="The tickets whose sparsity in every layer they have: the winner, also those of the front, or all "
        "that were measured; the last gives the pictures over sparsity a line of random tickets",
    )
    epochs: bool = Field(
        False,
        description="Attack the winner and the dense control after every epoch of their training (RobustT Fig. 4); "
        "both are trained once more for it",
    )
