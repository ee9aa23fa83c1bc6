"""Prints n-best answers as a table: with rich on a terminal if it is installed, else plain."""

import unicodedata


def print_answers(texts: list[str], answers: list[list[tuple[str, float]]], file) -> None:
    """Prints the answers to every text, best first.

    Args:
        texts: The texts of the request.
        answers: For each text, a list of pairs of answer and score.
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
            return _print_rich(columns, rows, file)
        except ImportError:
            pass
    print(format_table(columns, rows), file=file)


def format_table(columns, rows) -> str:
    """Returns a table of aligned columns.

    Example:

    >>> print(format_table(("text", "rank"), [("abc", "1"), ("", "2")]))
    text  rank
    ----  ----
    abc   1
          2
    """
    widths = [max(map(_measure_width, column)) for column in zip(columns, *rows, strict=True)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _measure_width(cell))
            for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _print_rich(columns, rows, file):
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(column, justify="right" if column in ("rank", "score") else "left")
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console(file=file).print(table)


def _measure_width(text):
    """Returns the width of a text on a terminal: 2 for wide letters, 0 for combining marks."""
    return sum(
        0
        if unicodedata.combining(letter)
        else 2
        if unicodedata.east_asian_width(letter) in "WF"
        else 1
        for letter in text
    )
