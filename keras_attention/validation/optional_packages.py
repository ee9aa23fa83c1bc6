"""Errors for missing optional packages, with the command that installs them."""

DISTRIBUTION = "keras-attention-layers"


def missing_package_error(purpose: str, package: str, extra: str) -> ImportError:
    """Returns the error for a missing package, with the extra that installs it.

    Args:
        purpose: Str, the feature that needs the package, in the singular: the sentence's subject.
        package: Str, the missing package.
        extra: Str, the extra of this project that includes it.

    Example:

    >>> print(missing_package_error("A plot", "matplotlib", "plot"))
    A plot needs matplotlib, which is not installed.
    Run: pip install "keras-attention-layers[plot]"
    """
    return ImportError(
        f"{purpose} needs {package}, which is not installed. "
        f'Run: pip install "{DISTRIBUTION}[{extra}]"'
    )
