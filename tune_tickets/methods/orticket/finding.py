"""ORTicket, searching stage: the search of EarlyRobust on masked text instead of labelled rows (its algorithm 1).

Masked text belongs to no task, so the coefficients serve every task. Each task has its own ratios and training.
"""

import torch
from transformers import PreTrainedModel

from tune_tickets.engine.execution import StageContext
from tune_tickets.methods.bodies.masked_lm import load_masked_lm
from tune_tickets.methods.earlyrobust.finding import Search, Start
from tune_tickets.methods.given import load_corpus
from tune_tickets.methods.orticket import ORTicket
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.masked_lm import MaskedBatches, Masking, encode_texts, masked_cross_entropy


def masked_search(
    method: ORTicket,
    model: PreTrainedModel,
    blocks: EncodedRows,
    masking: Masking,
    seed: int,
    device: torch.device | str,
) -> Search:
    """The search of eq. 7 with the masked-LM loss as L. The head of `model` trains too."""
    batches = MaskedBatches(blocks, method.batch_size, seed, masking, device, method.perturb_masked)
    return Search(method, model, blocks, seed, device, batches, masked_cross_entropy)


def on_masked_text(context: StageContext) -> Start:
    """A search on the blocks of the corpus, from the masked language model of the upstream stage."""
    method = ORTicket.model_validate({**context.inputs["method"], **(context.stage.goal or {})})
    model, tokenizer = load_masked_lm(context)
    blocks = encode_texts(tokenizer, load_corpus(context), method.block, blocks=True)

    def start(device: torch.device) -> Search:
        model.to(device)  # type: ignore[arg-type]
        masking = Masking.of(tokenizer, method.mask_probability)
        return masked_search(method, model, blocks, masking, context.inputs["seed"], device)

    return method, len(blocks), start
