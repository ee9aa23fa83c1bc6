"""A training whose attention follows the links of a file, and links behind the outputs."""

import pytest
from command_line import TINY, sentences

from keras_attention.data import read_links, write_links
from keras_attention.metrics import AlignmentErrorRate

pytestmark = pytest.mark.thorough

#: Each word is linked to the next one, the last to the first: no model would find this by itself.
LINKS = [
    {(n, (n + 1) % count) for n in range(count)}
    for count in (len(source.split()) for source, _ in sentences(64))
]


def train(command, run, files, links, *options):
    source, target = files
    return command(
        *("train", "rnnsearch", "--run", run, "--source", source, "--target", target),
        *("--validation-source", source, "--validation-target", target, "--tokenizer", "words"),
        *("--guided-alignment", links, "--batch-size", 8, *TINY, *options),
    )


def test_attention_follows_the_links(command, parallel_files, tmp_path):
    run, links, output = tmp_path / "run", tmp_path / "links.txt", tmp_path / "out"
    write_links(links, LINKS)
    options = ["--guided-alignment-weight", 1, "--learning-rate", "0.02", "--units", 16]
    status, out, err = train(command, run, parallel_files, links, "--epochs", 10, *options)
    assert (status, err) == (0, ""), out
    source, target = parallel_files
    status, out, err = command(
        *("evaluate", run, "--source", source, "--target", target, "--beam-width", 1),
        *("--output", output, "--alignment", "hard"),
    )
    assert (status, err) == (0, ""), out
    found = [line.partition(" |||")[2] for line in output.read_text().splitlines()]
    links.write_text("\n".join(found))
    assert AlignmentErrorRate()(LINKS, read_links(links)[0]) < 0.05
    links.write_text("0-0\n" * 64)
    status, _, err = train(
        command, run, parallel_files, links, "--epochs", 11, *options, "--resume"
    )
    assert status == 1 and "The training data is not what the run" in err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0-0\n0-0 4-1\n" * 32, "links.txt:2: the link 4-1 points outside its sentence: the so"),
        ("0-0\n0 - 0\n" * 32, "links.txt:2: expected links such as 0-0"),
        ("0-0\n" * 63, "links.txt has 63 lines, and there are 64 source sentences"),
    ],
)
def test_a_wrong_file_of_links_is_named(command, parallel_files, tmp_path, lines, message):
    run, links = tmp_path / "run", tmp_path / "links.txt"
    links.write_text(lines)
    status, _, err = train(command, run, parallel_files, links)
    assert status == 1 and message in err and err.count("\n") == 1
    assert not run.exists()
