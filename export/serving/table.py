"""Ranked answers as a table: by rich where it is installed and looked at, plain elsewhere."""

import unicodedata


def shown(texts: list[str], answers: list[list[tuple[str, float]]], file) -> None:
    """Prints for every text its answers, best first.

    Args:
        texts: What was asked.
        answers: For each of them, pairs of text and score.
        file: Text file to print to.
    """
    rows = [
        (text if rank == 1 else "", str(rank), f"{score:.4f}", answer)
        for text, ranked in zip(texts, answers, strict=True)
        for rank, (answer, score) in enumerate(ranked or [("(no answer)", float("nan"))], 1)
    ]
    columns = ("text", "rank", "score", "answer")
    if file.isatty():
        try:
            return _rich(columns, rows, file)
        except ImportError:
            pass
    print(plain(columns, rows), file=file)


def plain(columns, rows) -> str:
    """Returns a table of aligned columns.

    Example:

    >>> print(plain(("text", "rank"), [("abc", "1"), ("", "2")]))
    text  rank
    ----  ----
    abc   1
          2
    """
    widths = [max(map(_width, column)) for column in zip(columns, *rows, strict=True)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _rich(columns, rows, file):
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(column, justify="right" if column in ("rank", "score") else "left")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console(file=file).print(table)


def _width(text):
    """Columns a terminal gives a text: two for wide letters, none for combining marks."""
    return sum(
        0
        if unicodedata.combining(letter)
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )
