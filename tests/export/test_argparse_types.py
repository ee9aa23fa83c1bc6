"""The numbers of the command lines, at their limits."""

import argparse

import pytest

from keras_attention.export import _argparse_types, search_flags


@pytest.mark.parametrize("most", [7, 2**63 - 1])
def test_the_largest_int_is_taken_and_the_next_is_not(most):
    assert _argparse_types.parse_int(str(most), most) == most
    assert _argparse_types.parse_int(f"000{most}", most) == most
    assert _argparse_types.positive_int_up_to(most)(str(most)) == most
    assert _argparse_types.parse_int(str(most + 1), most) is None
    with pytest.raises(argparse.ArgumentTypeError, match=f"at most {most}, got '{most + 1}'"):
        _argparse_types.positive_int_up_to(most)(str(most + 1))


def test_the_minimum_length_may_be_0_as_by_default(capsys):
    parser = argparse.ArgumentParser()
    search_flags.add_search_flags(parser)
    assert parser.parse_args(["--min-length", "0"]) == parser.parse_args([])
    for text in ("-1", "x", str(2**63)):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--min-length={text}"])
        assert f"expected 0 or a positive integer, got '{text}'" in capsys.readouterr().err


def test_seconds_end_at_an_hour():
    assert _argparse_types.seconds("3600") == 3600
    for text in ("0", "3600.5", "nan", "x"):
        with pytest.raises(argparse.ArgumentTypeError, match="at most 3600"):
            _argparse_types.seconds(text)
