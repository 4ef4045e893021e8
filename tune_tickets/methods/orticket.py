"""ORTicket, searching stage: EarlyRobust's search with masked text in the place of labelled rows (its algorithm 1).

The masked-LM task belongs to no task in particular, so the coefficients found serve every task; how many are cut by
them, and the training that follows, are up to each.
"""

import torch
from transformers import PreTrainedModel

from tune_tickets.config.orticket import ORTicket
from tune_tickets.methods.earlyrobust import Search
from tune_tickets.training.batches import EncodedRows
from tune_tickets.training.masked_lm import MaskedBatches, Masking, masked_cross_entropy


def masked_search(
    method: ORTicket,
    model: PreTrainedModel,
    blocks: EncodedRows,
    masking: Masking,
    seed: int,
    device: torch.device | str,
) -> Search:
    """The search of eq. 7 with the masked-LM loss as L; the head of `model` trains along."""
    batches = MaskedBatches(blocks, method.batch_size, seed, masking, device, method.perturb_masked)
    return Search(method, model, blocks, seed, device, batches, masked_cross_entropy)
