"""Plants small defects in the code and reports which of them the tests catch.

    python tests/tools/planted_defects.py draw --seed 20 --count 66 defects.json
    python tests/tools/planted_defects.py run defects.json
    python tests/tools/planted_defects.py run --nearest defects.json      leaves out the whole suite

`draw` picks statements of the library and the export at random, the same ones for a seed and a
commit, and changes one operator, number or flag in each. `run` plants one after the other in a copy
of the tree and runs the nearest tests up to the first failure. Those that these do not catch are
then planted together for one run of `make test` and `make test-thorough`; every test that fails is
run again with each of them alone. Together they can hide one another, so a few may seem to escape.
Results are written after each defect, so that a run that was stopped goes on.
"""

import argparse
import ast
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("keras_attention", "export")
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
FUNCTIONS = {
    "maximum": "minimum",
    "minimum": "maximum",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
    "exp": "expm1",
    "tanh": "sigmoid",
    "sigmoid": "tanh",
    "argmax": "argmin",
    "cumsum": "cumprod",
    "sum": "mean",
}


def change_node(node):
    """Returns the kind of the change that was made to `node` in place, or None."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
        return "operator"
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
        return "comparison"
    if isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return "boolean"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
        return "flag"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1 if node.value != 1 else 0
        return "number"
    if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
        node.attr = FUNCTIONS[node.attr]
        return "function"
    return None


def find_statements(tree):
    """Yields `(qualified name, statement)` for the one-line statements of functions."""

    def visit(node, names):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                yield from visit(child, [*names, child.name])
            elif isinstance(child, ast.stmt):
                simple = isinstance(child, (ast.Assign, ast.AugAssign, ast.Return)) and child.value
                if names and simple and child.lineno == child.end_lineno:
                    yield ".".join(names), child
                yield from visit(child, names)

    yield from visit(tree, [])


def list_defects(path):
    """Returns every defect that can be planted in a file, in the order of its lines."""
    lines = path.read_text().split("\n")
    defects = []
    for name, statement in find_statements(ast.parse("\n".join(lines))):
        line = lines[statement.lineno - 1]
        source = line.strip()
        count = sum(1 for _ in ast.walk(ast.parse(source.replace("return ", "_ = ", 1))))
        for index in range(count):
            tree = ast.parse(source.replace("return ", "_ = ", 1))
            kind = change_node(list(ast.walk(tree))[index])
            if kind is None:
                continue
            changed = ast.unparse(tree)
            if source.startswith("return "):
                changed = changed.replace("_ = ", "return ", 1)
            defects.append(
                {
                    "path": str(path.relative_to(ROOT)),
                    "function": name,
                    "line": source,
                    "occurrence": lines[: statement.lineno - 1].count(line),
                    "changed": changed,
                    "kind": kind,
                }
            )
    return defects


def draw_defects(seed, count):
    """Returns `count` defects, drawn evenly over the folders, at most one for each function."""
    folders = {}
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            folders.setdefault(str(path.parent.relative_to(ROOT)), []).extend(list_defects(path))
    generator = random.Random(seed)
    drawn, used = [], set()
    while len(drawn) < count:
        folder = generator.choice(sorted(folders))
        if not folders[folder]:
            continue
        defect = folders[folder].pop(generator.randrange(len(folders[folder])))
        if (defect["path"], defect["function"]) not in used:
            used.add((defect["path"], defect["function"]))
            drawn.append(defect)
    return drawn


def plant_defect(tree, defect):
    """Writes one defect into the copy of the tree at `tree`; returns the former text."""
    path = tree / defect["path"]
    text = path.read_text()
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if line.strip() == defect["line"]]
    if len(places) <= defect["occurrence"]:
        raise ValueError(
            f"{defect['path']} no longer holds the line of this defect. Bring the list up to date "
            f"with the code. Received: line={defect['line']!r}"
        )
    place = places[defect["occurrence"]]
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    lines[place] = indent + defect["changed"]
    path.write_text("\n".join(lines))
    return text


def nearest_tests(tree, path):
    """Returns groups of tests for a changed file, the nearest first."""
    parts = pathlib.Path(path).with_suffix("").parts
    folder = tree / "tests" / pathlib.Path(*parts[1 if parts[0] == "keras_attention" else 0 : -1])
    names = [part.lstrip("_") for part in (parts[-1], parts[-2])]
    stages = [sorted(str(p) for p in (tree / "tests").rglob(f"test*{n}*.py")) for n in names]
    stages.append([str(folder)] if folder.is_dir() and folder != tree / "tests" else [])
    classes = re.findall(r"^class ([A-Z]\w*)", (tree / path).read_text(), re.MULTILINE)
    if parts[0] == "keras_attention" and classes:
        stages.append([str(tree / "tests/conformance"), "-k", " or ".join(classes)])
    return [stage for stage in stages if stage]


def run_tests(tree, tests, processes):
    """Returns the tests that fail, and what ended the run if no test did."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n"]
    command += [str(processes), "--dist", "loadscope", *tests]
    result = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if result.returncode in (0, 5):
        return []
    failures = [line for line in result.stdout.split("\n") if line.startswith(("FAILED", "ERROR"))]
    failures = [line.split(" ", 1)[1].split(" - ")[0] for line in failures]
    return failures or [f"exit {result.returncode}"]


def run_nearest(tree, defect, processes):
    """Returns the first of the nearest tests that a planted defect fails, or None."""
    for tests in nearest_tests(tree, defect["path"]):
        failures = run_tests(tree, ["-x", *tests], processes)
        if failures:
            return failures[0]
    return None


def run_suite(tree, defects, processes):
    """Returns `{number: test}` for those of the defects that a test of the whole suite catches."""
    former = {defect["path"]: (tree / defect["path"]).read_text() for defect in defects.values()}
    for defect in defects.values():
        plant_defect(tree, defect)
    selection = ["-m", "not slow and not variant"]
    failures = run_tests(tree, [*selection, "tests"], processes)
    for path, text in former.items():
        (tree / path).write_text(text)
    if failures:  # what fails without a defect catches none
        anyway = run_tests(tree, [*selection, *failures], processes)
        failures = [test for test in failures if test not in anyway]
    caught = {}
    for number, defect in defects.items():
        plant_defect(tree, defect)
        if failures:
            found = run_tests(tree, ["-x", *selection, *failures], processes)
            caught[number] = next(iter(found), None)
        (tree / defect["path"]).write_text(former[defect["path"]])
    return caught


def run_defects(path, processes, nearest_only=False):
    """Plants the defects of a list and writes what caught them beside it."""
    defects = json.loads(path.read_text())
    results_path = path.with_suffix(".results.json")
    results = json.loads(results_path.read_text()) if results_path.exists() else {}
    with tempfile.TemporaryDirectory() as directory:
        tree = pathlib.Path(directory) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv*", "runs")
        # `keras_attention/export` stays a link, or the defects of `export` would not be imported.
        shutil.copytree(ROOT, tree, symlinks=True, ignore=ignored)
        (tree / ".venv").symlink_to(pathlib.Path(sys.prefix))
        for number, defect in enumerate(defects):
            if str(number) in results:
                continue
            text, start = plant_defect(tree, defect), time.monotonic()
            results[str(number)] = caught = run_nearest(tree, defect, processes)
            (tree / defect["path"]).write_text(text)
            results_path.write_text(json.dumps(results, indent=1))
            seconds = time.monotonic() - start
            print(f"{number:3} {seconds:5.0f} s  {caught or 'not caught'}  {defect['changed']}")
        left = {number: defects[int(number)] for number in results if results[number] is None}
        if left and not nearest_only:
            results |= run_suite(tree, left, processes)
            results_path.write_text(json.dumps(results, indent=1))
    escaped = [number for number, caught in results.items() if caught is None]
    print(f"{len(results)} planted, {len(results) - len(escaped)} caught, escaped: {escaped}")


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw", help="write a list of defects")
    draw.add_argument("--seed", type=int, default=20)
    draw.add_argument("--count", type=int, default=66)
    run = commands.add_parser("run", help="plant them and run the tests")
    run.add_argument("--processes", type=int, default=2)
    run.add_argument("--nearest", action="store_true", help="do not end with the whole suite")
    for command in (draw, run):
        command.add_argument("defects", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.command == "draw":
        defects = draw_defects(arguments.seed, arguments.count)
        arguments.defects.write_text(json.dumps(defects, indent=1) + "\n")
    else:
        run_defects(arguments.defects, arguments.processes, arguments.nearest)


if __name__ == "__main__":
    main()
