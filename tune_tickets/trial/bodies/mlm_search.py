"""Stage `mlm_search`: the trajectory of coefficients on masked text, extended as far as the goal needs."""

import torch

from tune_tickets.config.orticket import ORTicket
from tune_tickets.engine.execution import StageContext, StageOutput
from tune_tickets.methods.earlyrobust import Search
from tune_tickets.methods.orticket import masked_search
from tune_tickets.training.masked_lm import Masking, encode_texts
from tune_tickets.trial.bodies.masked_lm import load_masked_lm
from tune_tickets.trial.bodies.search import extend
from tune_tickets.trial.corpus import load_corpus


def run(context: StageContext) -> StageOutput:
    """Search on the blocks of the corpus, from the masked language model of the upstream stage."""
    method = ORTicket.model_validate({**context.inputs["method"], **(context.stage.goal or {})})
    model, tokenizer = load_masked_lm(context)
    blocks = encode_texts(tokenizer, load_corpus(context), method.block, blocks=True)

    def start(device: torch.device) -> Search:
        model.to(device)  # type: ignore[arg-type]
        masking = Masking.of(tokenizer, method.mask_probability)
        return masked_search(method, model, blocks, masking, context.inputs["seed"], device)

    return extend(context, method, len(blocks), start)
