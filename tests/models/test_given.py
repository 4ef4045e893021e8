import pytest
import torch

from tests.models.test_loading import made_ticket
from tests.models.tiny import FAMILIES
from tune_tickets.config.task import Model
from tune_tickets.errors import ConfigError, ResourceError
from tune_tickets.models.loading import given_mask
from tune_tickets.tickets.mask import StructuredMask
from tune_tickets.tickets.ticket import Ticket, save_ticket
from tune_tickets.tickets.unstructured import UnstructuredMask


def saved(tmp_path, family="bert", single_weights=False) -> tuple[str, Model, Ticket]:
    """A ticket file and its backbone; with `single_weights` nothing but the first value of every third row is cut."""
    _, _, _, ticket = made_ticket(family, tmp_path)
    backbone = Model(source=str(tmp_path / "backbone"))
    if single_weights:
        from tune_tickets.models.backbone import load_backbone

        model, _ = load_backbone(backbone, ("neg", "pos"), seed=0)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("value.weight"):
                    parameter[::3, 0] = 0.0
        full = StructuredMask.full(2, 4, 24)
        ticket = Ticket(model.state_dict(), full, ticket.tokenizer_files, ticket.metadata)
    save_ticket(ticket, tmp_path / "a.ticket")
    return str(tmp_path / "a.ticket"), backbone, ticket


def test_heads_and_neurons_are_those_listed_in_the_file(tmp_path):
    path, backbone, ticket = saved(tmp_path)
    assert given_mask(path, backbone).digest() == ticket.mask.digest()


@pytest.mark.parametrize("family", FAMILIES)
def test_single_weights_that_were_cut_are_the_zeros(family, tmp_path):
    path, backbone, _ = saved(tmp_path, family, single_weights=True)
    mask = given_mask(path, backbone)
    assert isinstance(mask, UnstructuredMask)
    assert len(mask.kept) == (13 if family == "bert" else 12)
    assert mask.weights_cut() == 2 * 11  # 11 of 32 rows in each of 2 layers
    for name, kept in mask.kept.items():
        wanted = torch.ones_like(kept)
        if name.endswith("value.weight"):
            wanted[::3, 0] = False
        assert torch.equal(kept, wanted)


def test_a_ticket_of_another_backbone_is_refused(tmp_path):
    path, backbone, _ = saved(tmp_path)
    with pytest.raises(ConfigError, match=r"num_hidden_layers 2, but .* has 1.*model\.layers"):
        given_mask(path, backbone.model_copy(update={"layers": 1}))


def test_a_whole_model_is_no_ticket_to_take_after(tmp_path):
    path, backbone, ticket = saved(tmp_path, single_weights=True)
    weights = {name: tensor + (tensor == 0) for name, tensor in ticket.weights.items()}
    save_ticket(Ticket(weights, ticket.mask, ticket.tokenizer_files, ticket.metadata), tmp_path / "a.ticket")
    with pytest.raises(ConfigError, match="nothing was cut"):
        given_mask(path, backbone)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ResourceError, match=r"no ticket can be read at .*absent"):
        given_mask(str(tmp_path / "absent.safetensors"), Model())
