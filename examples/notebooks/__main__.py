"""Builds notebooks from their pages and stores them with their outputs."""

import argparse
import sys
import time

import nbformat

from examples.notebooks import running, source


def main() -> int:
    """Builds the notebooks that the command line names, or all."""
    pages = {page.stem: page for page in source.pages()}
    parser = argparse.ArgumentParser(prog="python -m examples.notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(pages)}")
    names = parser.parse_args().names or list(pages)
    unknown = sorted(set(names) - set(pages))
    if unknown:
        parser.error(f"there is no page {unknown[0]}; there is {', '.join(pages)}")
    for name in names:
        began = time.monotonic()
        print(f"{name}: running", flush=True)
        notebook = running.execute(source.read(pages[name]))
        nbformat.write(notebook, pages[name].with_suffix(".ipynb"))
        print(f"{name}: stored after {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
