"""`python -m examples data`: fetch public data sets."""

import pathlib

from examples.commands.arguments import UsageError
from examples.data import download
from examples.data.report import DataError

SUMMARY = "fetch a public data set, check and convert it"
EPILOG = """\
examples:
  python -m examples data                          list the data sets
  python -m examples data multi30k --to D
  python -m examples data scan --to D --from SCAN  from a copy of the authors' repository

An interrupted download goes on when the same command is run again.
"""

#: Data sets of docs/results.md that no command fetches yet.
NOT_FETCHED = ("cloze_en (docs/development/cloze_books.md says how it was made)",)


def add_arguments(parser) -> None:
    """Adds the options of `data`."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="data set (default: list them)")
    parser.add_argument("--to", metavar="DIR", help="folder of the data sets")
    parser.add_argument(
        "--from", dest="source", metavar="DIR", help="the authors' repository, fetched by hand"
    )
    parser.add_argument("--list", action="store_true", help="list the data sets")


def run(arguments) -> None:
    """Lists the data sets, or fetches one."""
    name = arguments.name
    if name is None or arguments.list:
        for each, data_set in download.SETS.items():
            files = {file.path: file.size for file in download.list_originals(each)}
            size = sum(files.values()) / 1e6
            print(f"{each:<21} {size:5.1f} MB  {data_set.license}")
        print(f"not fetched yet: {', '.join(NOT_FETCHED)}")
        return
    if name not in download.SETS:
        raise UsageError(f"Expected one of {', '.join(download.SETS)}. Received: {name}")
    if arguments.to is None:
        raise UsageError("Name the folder of the data sets with --to.")
    data_set = download.SETS[name]
    if pathlib.Path(arguments.to, name).exists():
        print(f"{pathlib.Path(arguments.to, name)} is there already; nothing was done.")
        return
    try:
        folder = download.download(name, arguments.to, arguments.source)
    except DataError as error:
        archive = f"https://github.com/{data_set.repository}/archive/{data_set.commit}.zip"
        raise DataError(
            f"{error} Without a connection: fetch {archive} elsewhere, unpack it, and name the "
            "unpacked folder with --from."
        ) from error
    print(f"{folder} is complete.\nLicense: {data_set.license}\nCite: {data_set.citation}")
    print(f"Source: https://github.com/{data_set.repository} @ {data_set.commit}")
