import torch

# Tiny tensors gain nothing from threads, and on a busy machine threads wait for each other.
torch.set_num_threads(1)
