"""Fixtures of the tests beside PyTorch."""

import pytest


@pytest.fixture(scope="module")
def one_torch_thread():
    """Tiny products in two threads wait for each other, long on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
