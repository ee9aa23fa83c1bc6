"""What is asked of decoders that know less than ours."""

import pytest

from keras_attention import protocol
from keras_attention.recurrent import LuongDecoder, ScheduledSampling, Seq2SeqDecoder


class Short:
    def start(self, memory, initial_state=None):
        return memory, initial_state


class Shortest:
    def start(self, memory):
        return memory


class Roomy:
    first_id = 5

    def start(self, memory, initial_state=None, max_length=None):
        return memory, initial_state, max_length


class Open:
    def start(self, memory, **options):
        return memory, options


def test_only_what_a_start_takes_is_given_to_it():
    assert protocol.started(Short(), 1, 2, 3) == (1, 2)
    assert protocol.started(Shortest(), 1, max_length=3) == 1
    assert protocol.started(Roomy(), 1, 2, 3) == (1, 2, 3)
    assert protocol.started(Open(), 1, 2, 3) == (1, {"initial_state": 2, "max_length": 3})


def test_a_state_that_cannot_be_taken_is_not_dropped_in_silence():
    with pytest.raises(TypeError, match="initial_state"):
        protocol.started(Shortest(), 1, 2)


def test_a_decoder_tells_what_it_reads_first():
    assert protocol.first_id(Short()) == 2
    assert protocol.first_id(Roomy()) == 5
    seq2seq = Seq2SeqDecoder(11, 3, 4)
    assert protocol.first_id(seq2seq) == protocol.first_id(ScheduledSampling(seq2seq, 0.5)) == 3
    assert protocol.first_id(ScheduledSampling(LuongDecoder(11, 3, 4), 0.5)) == 2
