"""A text of each source as one text, as the files are made that a translator is trained on."""

import pytest
import tensorflow as tf

from examples.data.sources import join_sources
from keras_attention.export import tokenizers
from keras_attention.export._source_joiner import SourceJoiner

FIRST = ["ein hund", "", "  zwei\tkatzen ", "", "drei"]
SECOND = ["un chien", "deux", "", " \t", "été"]
THIRD = ["un perro", "", "dos gatos", "", ""]


def train(kind, symbols=("<sep>",), **options):
    texts = [f"ein{n} hund un chien {n}" for n in range(60)]
    return tokenizers.train(kind, texts, symbols=symbols, **options)


def join(tokenizer, *texts, separator_id=4):
    joiner = SourceJoiner(tokenizer, len(texts), separator_id)
    return joiner.join(*map(tf.constant, texts)).numpy().tolist()


@pytest.mark.parametrize("kind", ["characters", "words", "wordpiece", "sentencepiece"])
def test_tokens_are_those_of_joined_files(kind, tmp_path):
    tokenizer = train(kind)
    for name, lines in (("first", FIRST), ("second", SECOND), ("third", THIRD)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    join_sources([tmp_path / name for name in ("first", "second", "third")], tmp_path / "all")
    lines = (tmp_path / "all").read_text().split("\n")[:-1]
    for found, expected in zip(
        tokenizer.encode(join(tokenizer, FIRST, SECOND, THIRD)),
        tokenizer.encode(lines),
        strict=True,
    ):
        assert found.numpy().tolist() == expected.numpy().tolist()


@pytest.mark.parametrize("kind", ["characters", "words", "wordpiece", "sentencepiece"])
@pytest.mark.parametrize(
    "text",
    ["a <sep> b", "<sep><sep>", "<s<sep>ep>", "<<sep>sep>", "<SEP> a <Sep>", b"a\xff<sep>\x00b"],
)
def test_a_text_with_separators_is_one_source(kind, text):
    tokenizer = train(kind, lowercase=True)
    joined = join(tokenizer, [text, "c"], ["b", text])
    ids, _ = tokenizer.encode(joined)
    assert tf.math.count_nonzero(ids == 4, axis=1).numpy().tolist() == [1, 1]


def test_bytes_that_are_no_text_are_replaced_and_separate_nothing():
    joined = join(train("words"), [b"<s\xffep> a", b"\xff"], [b"\xe4", ""])
    assert joined == [text.encode() for text in ("<s�ep> a <sep> �", "� <sep>")]


@pytest.mark.parametrize("separator", ["<s.p>", "||", "(", "[a\\]"])
def test_a_separator_is_no_pattern(separator):
    joined = join(train("words", [separator]), [f"a {separator} b <sxp>"], ["c"])
    assert joined == [f"a   b <sxp> {separator} c".encode()]


@pytest.mark.parametrize(
    ("symbols", "separator_id", "message"),
    [
        ((), 4, r"symbol with this id.*Received: id 4 is '\w+', symbols=\(\)"),
        (["<a>", "<sep>"], 6, r"Received: id 6 is '\w+', symbols=\('<sep>', '<a>'\)"),
        (["<sep>"], 10**6, "id 1000000, .*Received: id 1000000 is '<unk>'"),
        (["<sep>"], 3, "Received: id 3 is '</s>'"),
    ],
)
def test_a_separator_that_is_no_symbol_is_refused(symbols, separator_id, message):
    with pytest.raises(ValueError, match=message):
        SourceJoiner(train("words", symbols), 2, separator_id)
