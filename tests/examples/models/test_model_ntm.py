import numpy as np

from examples.models import ntm
from keras_attention import NTMCell

SIZES = {"input_dim": 5, "output_dim": 3, "memory_size": 11, "word_size": 7, "units": 13}


def test_slots_are_alike_at_first_or_learned_apart():
    constant, learned = (
        ntm.build(**SIZES, initial_memory=memory) for memory in ("constant", "learned")
    )
    assert learned.count_params() == constant.count_params() + 11 * 7
    cells = [model.get_layer("ntm").cell for model in (constant, learned)]
    alike, apart = (np.array(cell.start(2)["memory"]) for cell in cells)
    np.testing.assert_array_equal(alike, np.float32(NTMCell(3).initial_state.memory))
    assert len(np.unique(apart[0].round(6), axis=0)) == 11  # no slot is another's twin
