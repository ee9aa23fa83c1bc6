"""Moves modules and rewrites their imports, in code, tests and pages.

python tests/tools/vocabulary/move_modules.py ROOT
"""

import ast
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
TOP = "keras_attention"


def table(path):
    return [
        line.split("\t") for line in pathlib.Path(path).read_text().splitlines() if line.strip()
    ]


MOD = {}  # old dotted (with top) -> new dotted
for old, new in table(HERE / "modules.tsv"):
    if new != "SPLIT":
        MOD[f"{TOP}.{old}"] = f"{TOP}.{new}"
for old, new in table(HERE / "export_modules.tsv"):
    MOD[f"{TOP}.export.{old}"] = f"{TOP}.export.{new}"


def path_of(dotted):
    parts = dotted.split(".")
    if parts[:2] == [TOP, "export"]:
        return pathlib.Path("export", *parts[2:])
    return pathlib.Path(*parts)


def git(*args):
    subprocess.run(["git", *args], cwd=ROOT, check=True)


# all modules of the old tree
OLD = set()
for base, top in (("keras_attention", TOP), ("export", f"{TOP}.export")):
    for f in (ROOT / base).rglob("*.py"):
        parts = list(f.relative_to(ROOT / base).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts = parts[:-1]
        OLD.add(".".join([top, *parts]))


def new_of(dotted):
    """new dotted of an old module dotted (itself if not moved)"""
    if dotted in MOD:
        return MOD[dotted]
    # longest moved package prefix
    parts = dotted.split(".")
    for i in range(len(parts) - 1, 1, -1):
        head = ".".join(parts[:i])
        if head in MOD and (ROOT / path_of(head)).is_dir():
            return ".".join([MOD[head], *parts[i:]])
    return dotted


# public names of package __init__ : name -> defining module (old)
def init_exports(pkg):
    out = {}
    f = ROOT / path_of(pkg) / "__init__.py"
    if not f.exists():
        return out
    for node in ast.walk(ast.parse(f.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(TOP):
            for a in node.names:
                out[a.asname or a.name] = node.module
    return out


EXPORTS = {m: init_exports(m) for m in OLD if (ROOT / path_of(m)).is_dir()}
notes = []


def rewrite_py(path):
    src = path.read_text()
    tree = ast.parse(src)
    lines = src.splitlines(keepends=True)
    edits, alias = [], {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and (node.module == TOP or node.module.startswith(TOP + "."))
        ):
            groups, changed = {}, False
            for a in node.names:
                full = f"{node.module}.{a.name}"
                if full in OLD:  # a module
                    new = new_of(full)
                    parent, stem = new.rsplit(".", 1)
                    asname = a.asname
                    if stem != a.name and not asname:
                        alias[a.name] = stem
                    groups.setdefault(parent, []).append((stem, asname))
                    changed |= new != full
                else:
                    src_mod = node.module
                    if src_mod in EXPORTS and a.name in EXPORTS[src_mod] and src_mod != TOP:
                        # public name of a package: the new package of its module
                        home = new_of(EXPORTS[src_mod][a.name])
                        new = (
                            home.rsplit(".", 1)[0]
                            if src_mod != f"{TOP}.export"
                            and not src_mod.startswith(f"{TOP}.export.")
                            else new_of(src_mod)
                        )
                        if path.name == "__init__.py" and path.parent.name in ("kernels",):
                            pass
                        # within the top-level init keep package import
                        if home.split(".")[-1].startswith("_") and not src_mod.startswith(
                            f"{TOP}.export"
                        ):
                            pass
                    else:
                        new = new_of(src_mod)
                    groups.setdefault(new, []).append((a.name, a.asname))
                    changed |= new != node.module
            if changed:
                indent = " " * node.col_offset
                text = ""
                for mod, names in groups.items():
                    ns = ", ".join(n if not s else f"{n} as {s}" for n, s in names)
                    if len(ns) > 60:
                        ns = (
                            "(\n"
                            + "".join(
                                f"{indent}    {n if not s else n + ' as ' + s},\n" for n, s in names
                            )
                            + f"{indent})"
                        )
                    text += f"{indent}from {mod} import {ns}\n"
                edits.append((node.lineno - 1, node.end_lineno, text))
        elif isinstance(node, ast.Import):
            for a in node.names:
                if a.name in OLD and new_of(a.name) != a.name:
                    text = lines[node.lineno - 1].replace(a.name, new_of(a.name))
                    edits.append((node.lineno - 1, node.end_lineno, text))
    for start, end, text in sorted(edits, reverse=True):
        if lines[end - 1].rstrip().find("#") != -1 and end - 1 == start:
            pass
        lines[start:end] = [text]
    src = "".join(lines)
    if alias:
        src = rename_tokens(src, alias, path)
    src = rewrite_text(src)
    if src != path.read_text():
        path.write_text(src)


def rename_tokens(src, alias, path):
    toks = list(tokenize.generate_tokens(io.StringIO(src).readline))
    lines = src.splitlines(keepends=True)
    edits = []
    for i, t in enumerate(toks):
        if t.type == tokenize.NAME and t.string in alias:
            prev = toks[i - 1].string if i else ""
            nxt = toks[i + 1].string if i + 1 < len(toks) else ""
            if prev == ".":
                continue
            if nxt == "=" and prev in ("(", ","):
                notes.append(f"{path}:{t.start[0]} keyword? {t.line.strip()}")
                continue
            if (
                prev in ("import",)
                or "import" in t.line.split("#")[0]
                and t.line.lstrip().startswith(("from", "import"))
            ):
                continue
            if nxt != ".":
                notes.append(f"{path}:{t.start[0]} bare {t.string}: {t.line.strip()}")
            edits.append((t.start[0] - 1, t.start[1], t.end[1], alias[t.string]))
    alt = "|".join(map(re.escape, alias))
    for t in toks:
        if (
            t.type == tokenize.STRING
            and re.match(r"(?i)[rb]*f", t.string)
            and t.start[0] == t.end[0]
        ):
            new = re.sub(
                r"\{[^{}]*\}",
                lambda k: re.sub(
                    r"(?<![\w.\"'])(" + alt + r")(?=\.)", lambda z: alias[z.group(1)], k.group(0)
                ),
                t.string,
            )
            if new != t.string:
                edits.append((t.start[0] - 1, t.start[1], t.end[1], new))
    for row, a, b, new in sorted(edits, reverse=True):
        lines[row] = lines[row][:a] + new + lines[row][b:]
    return "".join(lines)


DOTTED, PATHS = {}, {}
for old, new in MOD.items():
    DOTTED[old] = new
    po, pn = str(path_of(old)), str(path_of(new))
    if (ROOT / po).is_dir():
        PATHS[po + "/"] = pn + "/"
        if not old.startswith(f"{TOP}.export"):
            PATHS["tests/" + po.split("/", 1)[1] + "/"] = "tests/" + pn.split("/", 1)[1] + "/"
            PATHS["tests/" + po.split("/", 1)[1] + " "] = "tests/" + pn.split("/", 1)[1] + " "
    else:
        PATHS[po + ".py"] = pn + ".py"
        if "/" in po and not old.startswith(f"{TOP}.export"):
            PATHS[po.split("/", 1)[1] + ".py"] = pn.split("/", 1)[1] + ".py"


def alternation(d):
    return "|".join(re.escape(k) for k in sorted(d, key=len, reverse=True))


RD = re.compile(r"(?<![\w.])(" + alternation(DOTTED) + r")(?!\w)")
RP = re.compile(r"(?<![\w/.])(" + alternation(PATHS) + r")")


def rewrite_text(src):
    src = RD.sub(lambda m: DOTTED[m.group(1)], src)
    return RP.sub(lambda m: PATHS[m.group(1)], src)


def tracked():
    out = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / f for f in out.split("\0") if f and (ROOT / f).exists()]


for f in tracked():
    if f.suffix == ".py":
        rewrite_py(f)
    elif f.suffix in (".md", ".toml", ".sh", "") or f.name in (
        "Makefile",
        "run",
        "jax",
        "wheel",
        "lowest",
        "jax_wheel",
    ):
        if f.name == "CHANGELOG.md" or f.suffix == ".ipynb":
            continue
        try:
            s = f.read_text()
        except UnicodeDecodeError:
            continue
        n = rewrite_text(s)
        if n != s:
            f.write_text(n)
    elif f.suffix == ".ipynb":
        s = f.read_text()
        n = rewrite_text(s)
        if n != s:
            f.write_text(n)
# moves
moves = []
for m in sorted(OLD):
    n = new_of(m)
    if (
        n != m
        and (ROOT / path_of(m)).with_suffix(".py").exists()
        and not (ROOT / path_of(m)).is_dir()
    ):
        moves.append((path_of(m).with_suffix(".py"), path_of(n).with_suffix(".py")))
for pkg in [m for m in MOD if (ROOT / path_of(m)).is_dir()]:
    moves.append((path_of(pkg) / "__init__.py", path_of(MOD[pkg]) / "__init__.py"))
pending = list(moves)
while pending:
    for a, b in list(pending):
        if not (ROOT / b).exists():
            (ROOT / b).parent.mkdir(parents=True, exist_ok=True)
            git("mv", str(a), str(b))
            pending.remove((a, b))
print("\n".join(notes))

(ROOT / ".newpaths.tsv.tmp").write_text("".join(f"{a}\t{b}\n" for a, b in moves))
