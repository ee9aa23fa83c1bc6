"""`python -m examples export`: a run as a SavedModel for TensorFlow Serving."""

from examples.commands import arguments as shared
from examples.commands.opened import open_run, output_limit
from keras_attention.export import export_translator

SUMMARY = "write a SavedModel version that a model server loads"


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    parser.add_argument(
        "base", metavar="BASE", help="base directory; the version is a folder in it"
    )
    parser.add_argument(
        "--version", type=shared.positive_int, help="version (default: the next one)"
    )
    shared.add_search(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    path = export_translator(
        opened.model,
        arguments.base,
        source=opened.source_tokenizer,
        target=opened.target_tokenizer,
        version=arguments.version,
        beam_width=arguments.beam,
        max_length=output_limit(opened, arguments),
        length_penalty=arguments.length_penalty,
    )
    print(path)
