"""Answers texts from an exported SavedModel, as a client without this library would.

    python -m examples.ask BASE TEXT ...

It imports TensorFlow and TensorFlow Text, whose tokenizers are in the graph, and nothing of
`keras_attention`. BASE is the directory that holds the versions.
"""

import pathlib
import sys

from examples.quiet import import_tensorflow


def newest_version(base: str) -> pathlib.Path:
    """Returns the version directory with the highest number.

    Raises:
        ValueError: If there is none.
    """
    found = [path for path in pathlib.Path(base).glob("*") if path.name.isdigit()]
    if not found:
        raise ValueError(f"There is no exported version in {base}.")
    return max(found, key=lambda path: int(path.name))


def main(arguments: list[str]) -> int:
    """Prints the best output and its score for every text."""
    if len(arguments) < 2:
        print("usage: python -m examples.ask BASE TEXT ...", file=sys.stderr)
        return 2
    base, *texts = arguments
    try:
        version = newest_version(base)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    import_tensorflow()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  registers the tokenizers' ops

    answer = tf.saved_model.load(str(version)).signatures["serving_default"]
    result = answer(text=tf.constant(texts))
    for text, best, score in zip(
        texts, result["text"][:, 0].numpy(), result["score"][:, 0].numpy(), strict=True
    ):
        print(f"{text}  ->  {best.decode()}   (log-probability {score:.3f})")
    library = "imported" if "keras_attention" in sys.modules else "not imported"
    print(f"Answered from {version}; keras_attention was {library}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
