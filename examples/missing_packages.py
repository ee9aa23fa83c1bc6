"""The error of an example whose package is not installed."""

INSTALL_COMMAND = 'pip install -e ".[export,fonts,plot,serve]" --group examples'


def missing_package_error(purpose: str, package: str) -> ImportError:
    """Returns the error of a package that is not installed, with the command that installs it.

    Args:
        purpose: Str, what needs the package: the subject of the sentence.
        package: Str, the missing package.

    Example:

    >>> print(missing_package_error("The progress bar", "rich"))
    The progress bar needs rich, which is not installed.
    In the checkout, run: pip install -e ".[export,fonts,plot,serve]" --group examples
    """
    return ImportError(
        f"{purpose} needs {package}, which is not installed. "
        f"In the checkout, run: {INSTALL_COMMAND}"
    )
