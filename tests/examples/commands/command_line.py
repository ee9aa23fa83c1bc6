"""The command line called in this process, and what tiny runs are made of."""

import contextlib
import io

from examples.__main__ import main

TINY = "--units 8 --embedding-dim 7 --maxout-units 5 --no-xla --num-buckets 1".split()
WORDS = {
    "ein": "a", "kein": "no", "hund": "dog", "mann": "man", "vogel": "bird", "baum": "tree",
    "schläft": "sleeps", "läuft": "runs", "singt": "sings", "fällt": "falls", "nie": "never",
}  # fmt: skip


def sentences(count):
    """Pairs of German and English sentences, word by word, all different."""
    kinds = [("ein", "kein"), ("hund", "mann", "vogel", "baum")]
    verbs, found = ("schläft", "läuft", "singt", "fällt"), []
    for number in range(count):
        first = [kinds[0][number % 2], kinds[1][number // 2 % 4], verbs[number // 8 % 4]]
        words = first + ["nie"] * (number // 32) + ["."]
        found.append((" ".join(words), " ".join(WORDS.get(word, word) for word in words)))
    return found


def answer(*arguments):
    """Runs the command line; returns the exit status, what it printed, and its errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as ended:  # argparse, and an interrupted training
            status = ended.code
    return status, out.getvalue(), err.getvalue()
