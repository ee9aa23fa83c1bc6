"""How many operations one turn of a search's loop has: what a single sentence waits for."""

import pytest
from tf_or_skip import tf

from keras_attention import TransformerDecoder
from keras_attention.decoders import get_reorder_cache
from keras_attention.search import BeamOptions, beam_search, greedy_search

FREE = {"Const", "Identity", "NoOp", "ReadVariableOp"}


def count_operations(beam, rows):
    """Returns the operations in the body of the search's loop, for three layers."""
    decoder = TransformerDecoder(1009, dim=8, num_layers=3, num_heads=2)
    decoder(tf.ones((2, 3), tf.int32), tf.ones((2, 5, 8)))

    def search(encoded):
        memory = decoder.prepare(encoded)
        given = (decoder.step, decoder.start(memory, max_length=7), memory)
        if beam == 1:
            return greedy_search(*given, max_length=7, return_alignments=False)["ids"]
        options = BeamOptions(reorder_cache=get_reorder_cache(decoder))
        return beam_search(*given, beam_width=beam, max_length=7, options=options)["ids"]

    spec = tf.TensorSpec([rows, None, 8])
    graph = tf.function(search, [spec], autograph=False).get_concrete_function().graph
    bodies = [
        f.node_def for f in graph.as_graph_def().library.function if "body" in f.signature.name
    ]
    return max(sum(node.op not in FREE for node in body) for body in bodies)


@pytest.mark.parametrize(
    ("beam", "rows", "most"), [(1, 1, 453), (4, 1, 652), (1, None, 991), (4, None, 1234)]
)
def test_a_turn_of_the_loop_has_at_most_so_many_operations(beam, rows, most):
    assert count_operations(beam, rows) <= most
