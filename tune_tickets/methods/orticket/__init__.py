"""ORTicket: one ticket for every task, searched on masked text (Zhou et al., 2024). Its code: `finding`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from tune_tickets.config.evaluation import Fitting
from tune_tickets.config.section import Ratio
from tune_tickets.config.task import CORPUS, TASK
from tune_tickets.config.training import Adversary
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.engine.runner import unheard
from tune_tickets.engine.stage import ExtensibleStage, StageKey, Work
from tune_tickets.errors import DataError
from tune_tickets.methods.base import Flow
from tune_tickets.methods.earlyrobust import EarlyBird
from tune_tickets.methods.stages import Sizes, TrainingStage
from tune_tickets.results.records import MaskedHead

if TYPE_CHECKING:
    from tune_tickets.config import Settings

_OF_THE_TEXT = {"kind", "corpus", "rows", "head", "search_on"}


class ORTicket(EarlyBird):
    """The search of EarlyRobust on the masked-LM loss. Defaults: ORTicket section 3.5, else docs/orticket.md."""

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
    mask_probability: Ratio = Field(0.15, gt=0.0, description="Share of tokens to predict; 80/10/10 as in BERT")
    perturb_masked: bool = Field(True, description="Whether the adversary also moves the tokens to predict")
    head: Fitting = Field(
        default_factory=Fitting, description="How a checkpoint without a masked-LM head gets one before the search"
    )

    not_searchable: ClassVar[dict[str, str]] = {"rows": "the texts are read once, before the first trial"}

    @property
    def text_corpus(self) -> str | None:
        """The corpus, unless tickets are searched on labelled rows."""
        return self.corpus if self.masked_search else None

    def lengths(self) -> dict[str, int]:
        """Blocks of the search, and texts of the head."""
        return {"block": self.block, "head.max_length": self.head.max_length} if self.masked_search else {}

    def read_texts(self, seed: int) -> tuple[str, ...]:
        """The texts in reading order. The first ones are held out to measure a fitted head.

        Raises:
            DataError: there are not more texts than are held out.
        """
        from tune_tickets.data.corpus import read_corpus, texts_in_order

        texts = texts_in_order(read_corpus(self.corpus), self.rows, seed)
        if len(texts) <= self.head.held_out:
            raise DataError(
                f"method: the corpus {self.corpus!r} gives {len(texts)} texts, and {self.head.held_out} are held out "
                "to measure the masked-LM head on. Lower method.head.held_out, raise method.rows or bring more texts."
            )
        return texts

    @property
    def masked_search(self) -> bool:
        """Whether tickets are searched on masked text, or on labelled rows."""
        return self.search_on == CORPUS

    def changes(self) -> Iterator[str]:
        """On labelled rows, without the adversary, without the penalties."""
        yield from [f"on {self.search_on}"] * (not self.masked_search)
        yield from ["no adversary"] * (self.adversary.kind == "none")
        yield from super().changes()

    def check(self, settings: "Settings") -> None:
        """What is searched on must exist and suit the adversary."""
        known = (CORPUS, TASK, *settings.transfer)
        if self.search_on not in known:
            raise ValueError(f"method.search_on is {self.search_on!r}, but can be one of {', '.join(known)}")
        if self.masked_search and self.adversary.kind == "substitution":
            raise ValueError(
                "method.adversary.kind is substitution, which rewrites labelled rows, but the search is on masked "
                "text: choose freelb or pgd, or set method.search_on to task"
            )

    def search_inputs(self) -> dict[str, Any]:
        """What the trajectory depends on, except the texts, the model or the labelled rows of the search."""
        if self.masked_search:
            return self.model_dump(mode="json", exclude={"drawing", "gamma", "patience", *_OF_THE_TEXT})
        # On labelled rows it is the search of EarlyRobust and shares its stages.
        shared = self.model_dump(mode="json", include=set(EarlyBird.model_fields) - {"drawing", "gamma", "patience"})
        return {**shared, "kind": "earlyrobust"}

    def find(self, flow: Flow) -> ExtensibleStage:
        """The search on masked text, on the rows of the task, or on the rows of a further task."""
        if self.search_on == TASK:
            return super().find(flow)
        if not self.masked_search:
            other = flow.settings.transfer[self.search_on].task
            return self.search_on_rows(flow, other.max_length, flow.world.transfers[self.search_on])
        corpus = flow.world.search_texts[self.corpus]
        fitted = flow.run(flow.masked_lm(flow.settings.model, self.head, corpus), unheard)
        flow.masked_head = MaskedHead.model_validate({name: fitted.record[name] for name in MaskedHead.model_fields})
        return MaskedSearch(
            seed=flow.settings.seed,
            method=self.search_inputs(),
            corpus=corpus,
            masked_lm=fitted.key,
            to=self.stop_rule(),
        )


@dataclass(frozen=True, kw_only=True)
class MaskedSearch(TrainingStage, ExtensibleStage):
    """The trajectory of coefficients on masked text, independent of any task."""

    name: ClassVar[str] = "mlm_search"
    curve: ClassVar[tuple[str, str] | None] = ("search on masked text", "mini-epoch")
    seed: int
    method: dict[str, Any]
    corpus: StageKey
    masked_lm: StageKey

    def run(self, context: StageContext) -> StageOutput:
        """Extend the trajectory and find where it stops."""
        from tune_tickets.methods.earlyrobust.finding import extend
        from tune_tickets.methods.orticket.finding import on_masked_text

        return extend(context, on_masked_text(context))

    def work(self, sizes: Sizes) -> Work:
        """At most the full schedule. The number of blocks is not known before the texts are read."""
        passes = self.method["epochs"] * Adversary.model_validate(self.method["adversary"]).passes
        return Work(f"<= {passes:g} passes over all blocks, for all tasks")

    def foreseen(self) -> dict[str, Any]:
        """Where the search stops is not known before it has run."""
        return {"stop": 1, "converged": True}
