"""`method.kind: orticket`: one ticket for every task, searched on masked text (Zhou et al., 2024)."""

from typing import Any, Literal

from pydantic import Field

from tune_tickets.config.early_bird import EarlyBird
from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.section import Ratio

CORPUS, TASK = "corpus", "task"
"""What `search_on` may be beside the name of a further task."""
_OF_THE_TEXT = {"kind", "corpus", "rows", "head", "search_on"}


class ORTicket(EarlyBird):
    """EarlyRobust's search on the masked-LM loss. Defaults: ORTicket section 3.5; docs/orticket.md for the rest."""

    kind: Literal["orticket"] = "orticket"
    search_on: str = Field(
        CORPUS,
        min_length=1,
        description="'corpus': masked text; 'task' or the name of a task under transfer: its labelled rows (Table 4)",
    )
    corpus: str = Field(
        "Salesforce/wikitext:wikitext-2-raw-v1",
        min_length=1,
        description="Hub id and subset as 'id:subset', 'bundled/reviews', 'bundled/rotten-tomatoes', 'bundled/imdb', "
        "or a text file (a text per line, also .gz) or a folder of them",
    )
    rows: int | None = Field(None, ge=1, description="Texts of the corpus used at most, a seeded sample; null: all")
    block: int = Field(128, ge=8, le=4096, description="Tokens of a block that the joined texts are cut into")
    mask_probability: Ratio = Field(0.15, gt=0.0, description="Share of tokens to be guessed; 80/10/10 as in BERT")
    perturb_masked: bool = Field(True, description="Whether the adversary moves the tokens to be guessed as well")
    head: Fitting = Field(
        default_factory=Fitting, description="How a checkpoint without a masked-LM head gets one before the search"
    )

    def search_inputs(self) -> dict[str, Any]:
        """What the trajectory depends on beside the texts and the model, or the labelled rows, that it is found on."""
        if self.search_on == CORPUS:
            return self.model_dump(mode="json", exclude={"drawing", "gamma", "patience", *_OF_THE_TEXT})
        # On labelled rows it is the search of EarlyRobust, and shares its stages.
        shared = self.model_dump(mode="json", include=set(EarlyBird.model_fields) - {"drawing", "gamma", "patience"})
        return {**shared, "kind": "earlyrobust"}
