"""Checks the words of the code and the documentation, and the names of functions.

    python tests/tools/check_vocabulary.py keras_attention export README.md

The arguments are files and folders; folders are searched for `*.py` and `*.md`. The script reports
every phrase of `vocabulary.toml` and every function whose name begins with a participle or a
gerund: functions are named by verbs in the imperative. It exits with status 1 if it finds any.
"""

import argparse
import ast
import os
import re
import sys
import tomllib
from pathlib import Path

VOCABULARY = tomllib.loads(Path(__file__).with_name("vocabulary.toml").read_text("utf-8"))
SUFFIXES = (".py", ".md")
# Between two words: white space, and the comment marks and quotes of lines and string literals.
GAP = r"(?:[^\S\n]|\n[^\S\n]*(?:#:?|>|f?\")?[^\S\n]*|\"[^\S\n]*\n[^\S\n]*f?\")+"


def compile_phrases(phrases):
    """Returns `(pattern, phrase, replacement)` for each phrase of a dict."""
    compiled = []
    for phrase, replacement in phrases.items():
        words = GAP.join(re.escape(word) for word in phrase.split())
        end = r"(?!\w)" if phrase[-1].isalnum() else ""
        compiled.append((re.compile(rf"(?<!\w){words}{end}", re.IGNORECASE), phrase, replacement))
    return compiled


PHRASES = compile_phrases(VOCABULARY["phrases"])


def list_files(paths):
    """Returns the files to check, sorted; links to folders are not followed."""
    files = set()
    for path in map(Path, paths):
        if path.is_file():
            files.add(path)
            continue
        if not path.is_dir():
            raise FileNotFoundError(f"There is no file or folder {path}.")
        for folder, names, contents in os.walk(path):
            names[:] = [name for name in names if not name.startswith((".", "__pycache__"))]
            files.update(Path(folder, name) for name in contents if name.endswith(SUFFIXES))
    return sorted(files)


def find_phrases(text):
    """Returns `(line, message)` for every phrase of the vocabulary in a text."""
    return [
        (text.count("\n", 0, match.start()) + 1, f"{phrase!r}: use {replacement!r}")
        for pattern, phrase, replacement in PHRASES
        for match in pattern.finditer(text)
    ]


def is_participle(name):
    """Whether the name of a function begins with a participle or a gerund."""
    names = VOCABULARY["names"]
    word = name.lstrip("_").split("_")[0]
    if name in names["functions"] or word in names["verbs"]:
        return False
    return word in names["participles"] or (len(word) > 4 and word.endswith(("ed", "ing")))


def find_function_names(source):
    """Returns `(line, message)` for every function named by a participle; properties may be."""
    return [
        (node.lineno, f"function {node.name!r}: use a verb in the imperative")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and is_participle(node.name)
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]


def check_file(path):
    """Returns the messages for a file, in the order of its lines."""
    text = path.read_text("utf-8")
    found = find_phrases(text) + (find_function_names(text) if path.suffix == ".py" else [])
    return [f"{path}:{line}: {message}" for line, message in sorted(found)]


def main(arguments=None):
    """Prints all messages and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help="files and folders")
    messages = [
        message
        for path in list_files(parser.parse_args(arguments).paths)
        for message in check_file(path)
    ]
    print(*messages, sep="\n", end="\n" if messages else "")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
