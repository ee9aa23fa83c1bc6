"""The source files of the project, and what they import."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_imports(path):
    """Returns the full names of all modules that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def find_files(*folders):
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert files, f"no Python file in {folders}"
    return files


def has_init(folder):
    return (folder / "__init__.py").is_file()
