"""`python -m examples export` for drawing digits."""

from examples.commands import arguments as shared
from examples.digits.generation.opened import open_run
from examples.models import draw
from keras_attention.export import export_model, versions

SUMMARY = "write a SavedModel version that a model server loads"
EPILOG = """\
examples:
  python -m examples export runs/drawn served          writes served/1, then served/2, ...
  less served/1/assets.extra/model_card.md             what a client sends and gets

A request holds `noise` (batch, steps, latent), standard normal numbers: other numbers, another
picture. The answer holds `image` (batch, 28, 28), the probability of ink, `canvases` (batch,
steps, 28, 28), the same after every step, and `windows` (batch, steps, 5), where it wrote.
"""

MEANINGS = {
    "noise": "standard normal numbers: other numbers, another picture",
    "image": "the probability of ink at each pixel",
    "canvases": "the same after every step",
    "windows": "where each step wrote: x and y of the middle, in pixels from 1; variance of the "
    "filters; pixels from one to the next; gain",
}


def add_arguments(parser) -> None:
    """Adds the options of `export`."""
    shared.add_run(parser)
    shared.add_version(parser)


def run(arguments) -> None:
    """Writes the version and says where."""
    opened = open_run(arguments.run)
    versions.make_version_path(arguments.base, arguments.version)  # refused before the long work
    path = export_model(
        draw.generator(opened.model),
        arguments.base,
        version=arguments.version,
        descriptions=MEANINGS,
        run=opened.run.settings,
    )
    print(path)
