"""RoBERTa and models built like it: layers as in BERT, positions counted over the tokens that are not padding."""

from typing import Any, ClassVar

from transformers import PreTrainedModel

from tune_tickets.models.families.bert import Bert


class Roberta(Bert):
    """RoBERTa: positions start after the index of padding; the classifier does the work of BERT's pooler."""

    uncut_types: ClassVar[tuple[str, ...]] = ("layoutlmv3", "lilt", "longformer")
    model_types: ClassVar[tuple[str, ...]] = (
        "roberta", "camembert", "data2vec-text", "luke", "markuplm", "xlm-roberta", "xmod", *uncut_types
    )  # fmt: skip
    lean_types: ClassVar[tuple[str, ...]] = ("roberta", "camembert", "xlm-roberta")
    first_token_types: ClassVar[tuple[str, ...]] = lean_types
    masked_lm_part: ClassVar[str] = "lm_head"
    counts_from_left: ClassVar[bool] = False

    def positions(self, model: PreTrainedModel) -> int | None:
        """The first positions up to the index of padding are not used."""
        base: Any = model.base_model
        table = base.embeddings.position_embeddings
        return int(table.num_embeddings - table.padding_idx - 1)
