"""The code of an exported classifier that reads the mean of all tokens, for transformers without this package."""

import json
from pathlib import Path

from transformers import PretrainedConfig, PreTrainedModel

from tune_tickets.models.families.base import MEAN_POOLED

CODE_FILE = "mean_pooling.py"
_CODE = '''"""{model} with another input: the mean of the last hidden states over the attention mask."""

import torch
from {config_module} import {config}
from {model_module} import {model}


class MeanPooled{config}({config}):
    """The same settings under another type, so that no other class reads these weights."""

    model_type = "{kind}"


class MeanPooled{model}({model}):
    """Reads the mean of all tokens. It has no pooler."""

    config_class = MeanPooled{config}

    def __init__(self, config):
        super().__init__(config)
        if getattr(self.base_model, "pooler", None) is not None:
            self.base_model.pooler = FirstState()
        self.base_model.register_forward_hook(pool, with_kwargs=True)


class FirstState(torch.nn.Module):
    """A pooler without weights."""

    def forward(self, states):
        return states[:, 0] if states.ndim == 3 else states


def pool(encoder, inputs, named, output):
    """Put the mean where the classifier reads the first token."""
    states, mask = output.last_hidden_state, named.get("attention_mask")
    mask = torch.ones(states.shape[:2], device=states.device) if mask is None else mask
    weights = mask.unsqueeze(-1).to(states.dtype)
    mean = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
    output.last_hidden_state = mean.unsqueeze(1)
    if getattr(encoder, "pooler", None) is not None:
        output.pooler_output = mean
    return output
'''


def write_code(model: PreTrainedModel, folder: Path) -> None:
    """Add the code to a folder that `save_pretrained` wrote, and name it in config.json.

    The model type there is a new one. With the type of the base class, transformers would load the weights without the
    code if trust_remote_code is not set, and the answers would be wrong.
    """
    config, kind = type(model.config).__name__, f"{MEAN_POOLED}{model.config.model_type}"
    name, module = type(model).__name__, Path(CODE_FILE).stem
    code = _CODE.format(
        model=name,
        model_module=_importable(type(model)),
        config=config,
        config_module=_importable(type(model.config)),
        kind=kind,
    )
    (folder / CODE_FILE).write_text(code, encoding="utf-8")
    document = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    document |= {
        "model_type": kind,
        "architectures": [f"MeanPooled{name}"],
        "auto_map": {
            "AutoConfig": f"{module}.MeanPooled{config}",
            "AutoModelForSequenceClassification": f"{module}.MeanPooled{name}",
        },
    }
    (folder / "config.json").write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _importable(kind: type[PreTrainedModel] | type[PretrainedConfig]) -> str:
    """The module to import a class from. The inner modules of transformers may move."""
    return "transformers" if kind.__module__.startswith("transformers.") else kind.__module__
