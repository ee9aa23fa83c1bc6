"""Writes the `__init__.py` of the folders that `move_modules.py` made, and moves the tests.

python tests/tools/vocabulary/write_inits.py ROOT
"""

import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
TOP = "keras_attention"


def git(*a):
    subprocess.run(["git", *a], cwd=ROOT, check=True)


DOC = {
    "attention": "Attention layers: a scorer, a normalizer and a sum, named as in their papers.",
    "convolutional": "ConvS2S: gated convolution blocks, Gehring et al. 2017.",
    "core": "Layers that several models share: dropout, weight-normalized dense.",
    "decoders": "Decoders: the base class, and one module for each paper's decoder.",
    "memory_networks": "End-to-end memory networks, Sukhbaatar et al. 2015.",
    "ntm": "The Neural Turing Machine: addressing, heads, cell, layer.",
    "pooling": "Pooling: sequences, documents and candidates in, one vector or distribution out.",
    "recurrent": "Recurrent cells, attention around any of them, and the LSTMN.",
    "search": "Greedy search, beam search, sampling and scoring over any step function.",
    "transformer": "The Transformer's embeddings, positions, encoder and decoder layers.",
}
EMPTY = {
    "kernels": "Faster forms of the layers' formulas: blockwise products and custom gradients.",
    "_utils": "What packages share: validation, masks, dtypes, random numbers.",
}
names = {}  # package -> {name: module}
for init in (ROOT / TOP).rglob("__init__.py"):
    if init.parent == ROOT / TOP:
        continue
    for node in ast.walk(ast.parse(init.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith(TOP + "."):
            for a in node.names:
                pkg = node.module.split(".")[1]
                names.setdefault(pkg, {})[a.name] = node.module
names.setdefault("core", {}).update(
    {
        "CounterDropout": f"{TOP}.core.counter_dropout",
        "WeightNormalizedDense": f"{TOP}.core.weight_normalized_dense",
    }
)
names.setdefault("decoders", {})["Decoder"] = f"{TOP}.decoders.base"
for pkg, doc in DOC.items():
    text = f'"""{doc}"""\n\n'
    mods = {}
    for n, m in names[pkg].items():
        mods.setdefault(m, []).append(n)
    for m in sorted(mods):
        text += f"from {m} import (\n" + "".join(f"    {n},\n" for n in sorted(mods[m])) + ")\n"
    text += "\n__all__ = [\n" + "".join(f'    "{n}",\n' for n in sorted(names[pkg])) + "]\n"
    p = ROOT / TOP / pkg / "__init__.py"
    p.parent.mkdir(exist_ok=True)
    p.write_text(text)
for pkg, doc in EMPTY.items():
    (ROOT / TOP / pkg / "__init__.py").write_text(f'"""{doc}"""\n\n__all__ = []\n')
if (ROOT / TOP / "readers").exists():
    git("rm", "-qf", "keras_attention/readers/__init__.py")
# top init
p = ROOT / TOP / "__init__.py"
s = p.read_text()
s = s.replace(
    "from keras_attention.decoders.base import Decoder\n",
    "from keras_attention.decoders import Decoder\n",
)
s = s.replace(
    "from keras_attention.core.counter_dropout import CounterDropout\n",
    "from keras_attention.core import CounterDropout\n",
).replace(
    "from keras_attention.core.weight_normalized_dense import WeightNormalizedDense\n",
    "from keras_attention.core import WeightNormalizedDense\n",
)
s = s.replace(
    "from keras_attention import search as decoding\n",
    "from keras_attention import search as search\n",
)
s = s.replace(
    '_PACKAGES = ("decoding", "export", "plotting")', '_PACKAGES = ("export", "plotting", "search")'
).replace("{__name__}.decoding", "{__name__}.search")
p.write_text(s)
# packaging
p = ROOT / "pyproject.toml"
s = p.read_text()
pk = sorted(
    {TOP}
    | {
        ".".join((TOP, *i.parent.relative_to(ROOT / TOP).parts))
        for i in (ROOT / TOP).rglob("__init__.py")
    }
    | {
        ".".join((TOP, "export", *i.parent.relative_to(ROOT / "export").parts))
        for i in (ROOT / "export").rglob("__init__.py")
    }
)
s = re.sub(
    r"packages = \[.*?\]",
    "packages = [\n" + "".join(f'    "{x}",\n' for x in pk) + "]",
    s,
    flags=re.S,
)
p.write_text(s)
# tests
T = ROOT / "tests"


def mv(a, b):
    if (T / a).exists() and a != b:
        (T / b).parent.mkdir(parents=True, exist_ok=True)
        git("mv", f"tests/{a}", f"tests/{b}")


D = {"mechanisms": "attention", "memory": "ntm", "decoding": "search"}
for a, b in D.items():
    for f in sorted((T / a).iterdir()):
        if f.is_file():
            mv(f"{a}/{f.name}", f"{b}/{f.name}")
FILES = [line.split() for line in (HERE / "tests.tsv").read_text().splitlines() if line.strip()]
for a, b in FILES:
    mv(a, b)


out = []
for a, b in [(f"tests/{x}", f"tests/{y}") for x, y in FILES]:
    out.append((a, b))
for old, new in {"mechanisms": "attention", "memory": "ntm", "decoding": "search"}.items():
    for g in (T / new).iterdir():
        out.append((f"tests/{old}/{g.name}", f"tests/{new}/{g.name}"))
    for x, y in FILES:
        if x.startswith(new + "/"):
            out.append((f"tests/{old}/{x.split('/')[1]}", f"tests/{y}"))
with open(ROOT / ".newpaths.tsv.tmp", "a") as fh:
    fh.writelines(f"{a}\t{b}\n" for a, b in out)
