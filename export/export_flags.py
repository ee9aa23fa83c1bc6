"""The command-line flags of every export: of the version, and of the compilation."""

import argparse

from keras_attention.export import runs
from keras_attention.export._argparse_types import positive_int
from keras_attention.export.compilation import XLABuckets
from keras_attention.kernels.matmul_precision import PRECISIONS

#: The flags beside `--xla`, and what `XLABuckets` calls them.
XLA_OPTIONS = {
    "--xla-batch-sizes": "batch_sizes",
    "--xla-source-lengths": "source_lengths",
    "--xla-precision": "precision",
    "--parallel-splits": "split",
}


def add_version_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the version that any export writes.

    Example:

    >>> parser = argparse.ArgumentParser()
    >>> add_version_flags(parser)
    >>> parser.parse_args(["--version", "7"]).version
    7
    """
    parser.add_argument(
        "--dtype",
        choices=("float32",),
        help="compute in this dtype instead of the dtype of the training (faster with --xla)",
    )
    parser.add_argument(
        "--quantization",
        choices=runs.QUANTIZATIONS,
        help="store kernels and embeddings in this dtype: files of about a quarter of the size",
    )
    text = "version to write (default: the next one)"
    parser.add_argument("--version", type=positive_int, metavar="N", help=text)
    text = "name in the server (default: the name of the base directory)"
    parser.add_argument("--name", metavar="NAME", help=text)


def add_xla_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a translator that is compiled with XLA.

    Example:

    >>> parser = argparse.ArgumentParser()
    >>> add_xla_flags(parser)
    >>> make_xla_buckets(parser.parse_args(["--xla", "--xla-batch-sizes", "1", "8"])).batch_sizes
    (1, 8)
    """
    parser.add_argument(
        "--xla",
        action="store_true",
        help="compile the searches with XLA: faster, but the server needs "
        "--xla_cpu_compilation_enabled",
    )
    defaults = XLABuckets()
    for name, sizes, text in (
        ("--xla-batch-sizes", defaults.batch_sizes, "batch sizes"),
        ("--xla-source-lengths", defaults.source_lengths, "source lengths, EOS included,"),
    ):
        parser.add_argument(
            name,
            type=positive_int,
            metavar="N",
            nargs="+",
            help=f"{text} to compile for (default: {' '.join(map(str, sizes))})",
        )
    parser.add_argument(
        "--xla-precision",
        choices=PRECISIONS,
        help="precision of products with kernels; bfloat16 is faster on processors that have it, "
        f"and its scores are accurate to about three digits (default: {defaults.precision})",
    )
    parser.add_argument(
        "--parallel-splits",
        type=positive_int,
        metavar="N",
        help="parts of a batch to search in parallel, of at least 16 examples each; 2 is faster on "
        f"two cores (default: {defaults.split})",
    )


def make_xla_buckets(arguments: argparse.Namespace) -> XLABuckets | None:
    """Returns the shapes that the flags of `add_xla_flags` ask for, None without `--xla`.

    Raises:
        argparse.ArgumentError: If another flag is given without `--xla`.
        ValueError: If the sizes are invalid.
    """
    values = {flag: getattr(arguments, flag[2:].replace("-", "_")) for flag in XLA_OPTIONS}
    given = {flag: value for flag, value in values.items() if value is not None}
    if arguments.xla:
        return XLABuckets(**{XLA_OPTIONS[flag]: value for flag, value in given.items()})
    if given:
        raise argparse.ArgumentError(None, f"argument {next(iter(given))}: requires --xla")
    return None
