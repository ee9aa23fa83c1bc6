"""Answers texts from an exported SavedModel, as a client without this library would.

It imports TensorFlow and TensorFlow Text, whose tokenizers are in the graph, and nothing of
`keras_attention`.
"""

import argparse
import logging
import pathlib
import sys

from examples.tf_logging import import_tensorflow

EPILOG = """\
example:
  python -m examples.predict served "3. Mai 1979" "14 juillet 1989"
"""


def newest_version(base: str) -> pathlib.Path:
    """Returns the version directory with the highest number, or `base` if it is a version.

    Raises:
        ValueError: If there is none.
    """
    if (pathlib.Path(base) / "saved_model.pb").is_file():
        return pathlib.Path(base)
    found = [path for path in pathlib.Path(base).glob("*") if path.name.isdecimal()]
    if not found:
        raise ValueError(
            f"There is no exported version in {base}. Write one: python -m examples export RUN "
            f"{base}"
        )
    return max(found, key=lambda path: int(path.name))


def main(text_arguments: list[str] | None = None) -> int:
    """Prints the best output and its score for every text."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.predict",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("base", metavar="BASE", help="directory that holds the versions, or one")
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="texts to answer")
    arguments = parser.parse_args(text_arguments)
    try:
        version = newest_version(arguments.base)
        answers = _answers(version, arguments.texts)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    for text, best, score in answers:
        print(f"{text}  ->  {best}   (score {score:.3f})")
    library = "imported" if "keras_attention" in sys.modules else "not imported"
    print(f"Answered from {version}; keras_attention was {library}.")
    return 0


def _answers(version, texts):
    """Returns (text, best output, its score) for every text."""
    import_tensorflow()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizers' ops

    logging.getLogger("absl").setLevel("ERROR")  # it warns that a served model has no gradients
    signatures = tf.saved_model.load(str(version)).signatures
    if "serving_default" not in signatures:
        raise ValueError(f"{version} has no signature serving_default. Is it our export?")
    answer = signatures["serving_default"]
    _check_translator(version, answer)
    result = answer(text=tf.constant(texts))
    best, scores = result["text"][:, 0].numpy(), result["score"][:, 0].numpy()
    return [(t, b.decode(), float(s)) for t, b, s in zip(texts, best, scores, strict=True)]


def _check_translator(version, signature):
    """Raises unless a signature takes texts and gives ranked texts, as a translator's does."""
    takes, gives = signature.structured_input_signature[1], signature.structured_outputs
    if set(takes) == {"text"} and set(gives) == {"text", "score"}:
        return
    card = version / "assets.extra" / "model_card.md"
    told = f" {card} says what they mean." if card.is_file() else ""
    raise ValueError(
        f"This command asks translators, which take text and give text and score. {version} takes "
        f"{', '.join(sorted(takes)) or 'nothing'} and gives {', '.join(sorted(gives))}.{told} Call "
        "it with TensorFlow, tf.saved_model.load(path).signatures['serving_default'], or serve it "
        "and ask with the Client of keras_attention.export.serving."
    )


if __name__ == "__main__":
    sys.exit(main())
