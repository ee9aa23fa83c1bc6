"""What is asked of decoders that know less than ours."""

import pytest

from keras_attention.decoders import LuongDecoder, ScheduledSampling, Seq2SeqDecoder, protocol


class Short:
    def start(self, memory, initial_state=None):
        return memory, initial_state


class Roomy:
    decoder_start_id = 5

    def start(self, memory, initial_state=None, max_length=None):
        return memory, initial_state, max_length


class Open:
    def start(self, memory, *others):
        return memory, others


def test_a_start_gets_every_argument():
    assert protocol.start_decoder(Roomy(), 1, 2, 3) == (1, 2, 3)
    assert protocol.start_decoder(Open(), 1, max_length=3) == (1, (None, 3))


def test_a_start_with_other_arguments_says_how_to_define_it():
    message = r"Short defines `start`.*max_length=None\)`.*Received: `def start\(memory, initial_s"
    with pytest.raises(TypeError, match=message):
        protocol.start_decoder(Short(), 1, 2, 3)


def test_a_decoder_tells_what_it_reads_first():
    assert protocol.get_decoder_start_id(Short()) == 2
    assert protocol.get_decoder_start_id(Roomy()) == 5
    seq2seq = Seq2SeqDecoder(11, 3, 4)
    assert (
        protocol.get_decoder_start_id(seq2seq)
        == protocol.get_decoder_start_id(ScheduledSampling(seq2seq, 0.5))
        == 3
    )
    assert protocol.get_decoder_start_id(ScheduledSampling(LuongDecoder(11, 3, 4), 0.5)) == 2
