"""Greedy and beam search over PyTorch's RNNsearch, eager, the peer of the decode benchmark.

As a careful PyTorch user would write it: the source is encoded and its keys are projected once,
all beams of a sentence read the same keys and annotations, only states and ids are reordered, and
nothing is recorded for gradients.
"""

import torch

PAD_ID, START_ID, END_ID = 0, 2, 3


@torch.inference_mode()
def beam_search(model, source_ids, beam: int, length: int):
    """Returns ids `(batch, beam, length)` and log-probabilities `(batch, beam)`, best first.

    The EOS token is forbidden before the softmax, so that every hypothesis has `length` tokens;
    padding and the BOS token are never written.

    Args:
        model: A `TorchRNNsearch`.
        source_ids: Int64 tensor `(batch, source)`, padded with 0.
        beam: Width of the beam; 1 is the greedy search.
        length: Tokens of an output.
    """
    annotations, state, mask = model.encoder(source_ids)
    decoder, batch = model.decoder, len(source_ids)
    memory = decoder.prepare(annotations, mask)
    state = state[:, None].expand(-1, beam, -1)
    word = decoder.embedding.weight.new_zeros(batch, beam, decoder.embedding.embedding_dim)
    ids = source_ids.new_zeros(batch, beam, 0)
    totals = word.new_full((batch, beam), float("-inf"))
    totals[:, 0] = 0.0  # the beams begin alike: all but one are left out
    before, after = (word.new_zeros(decoder.logits.out_features) for _ in range(2))
    before[END_ID], after[[PAD_ID, START_ID]] = -1e9, float("-inf")
    for _ in range(length):
        state, context = decoder.recur(decoder.words(word), state, memory)
        logits = decoder.read(state, word, context) + before
        candidates = totals[..., None] + torch.log_softmax(logits, dim=-1) + after
        totals, chosen = candidates.flatten(1).topk(beam)
        parents, tokens = chosen // logits.shape[-1], chosen % logits.shape[-1]
        if beam > 1:
            state = state.gather(1, parents[..., None].expand(-1, -1, state.shape[-1]))
            ids = ids.gather(1, parents[..., None].expand(-1, -1, ids.shape[-1]))
        ids = torch.cat([ids, tokens[..., None]], dim=-1)
        word = decoder.embedding(tokens)
    return ids, totals
