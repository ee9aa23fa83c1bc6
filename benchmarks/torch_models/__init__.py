"""The peers in PyTorch: the same functions as ours, as a careful user writes them."""
