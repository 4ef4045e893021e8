"""What stages call the weights they leave. Apart from those that read them, as trials that only wait have no torch."""

TICKET_FILE = "ticket.safetensors"
WEIGHTS_FILE = "weights.safetensors"


def epoch_file(epoch: int) -> str:
    """The ticket as it is after an epoch of its training, the first being 1."""
    return f"ticket-{epoch:03}.safetensors"
