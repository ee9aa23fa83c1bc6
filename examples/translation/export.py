"""`python -m examples export`: a run as a SavedModel for TensorFlow Serving."""

from examples.commands import arguments as shared
from examples.translation.opened import open_run
from keras_attention.export import export_translator, versions
from keras_attention.export.search_arguments import add_search_arguments, make_search_options

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/dates served          writes served/1, then served/2, ...
  python -m examples.ask served "3. Mai 1979"          answers from the newest version
  less served/1/assets.extra/model_card.md             what a client sends and gets

The search is part of the export: --beam-width and the other options hold for every request.
"""


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)
    add_search_arguments(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    path = export_translator(
        opened.model,
        arguments.base,
        source=opened.source_tokenizer,
        target=opened.target_tokenizer,
        version=arguments.version,
        search=make_search_options(arguments, opened),
        run=opened.settings,
    )
    print(path)
