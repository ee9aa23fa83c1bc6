"""What to install for a part of this project that needs more than Keras."""

DISTRIBUTION = "keras-attention-layers"


def missing_package(purpose: str, package: str, extra: str) -> ImportError:
    """Returns the error of a package that is not installed, with the extra that brings it.

    Args:
        purpose: Str, what needs the package, in the singular: the subject of the sentence.
        package: Str, the missing package.
        extra: Str, the extra of this project that it belongs to.

    Example:

    >>> print(missing_package("A plot", "matplotlib", "plot"))
    A plot needs matplotlib, which is not installed.
    Run: pip install "keras-attention-layers[plot]"
    """
    return ImportError(
        f"{purpose} needs {package}, which is not installed. "
        f'Run: pip install "{DISTRIBUTION}[{extra}]"'
    )
