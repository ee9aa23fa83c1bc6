"""Renames identifiers in a checkout whose modules `move_modules.py` has moved.

    python tests/tools/vocabulary/rename_identifiers.py ROOT names_of_layers.tsv ...

Tokens are renamed, not text: a row of a table is kind, scope (`global` or files), old, new, note.
"""

import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(sys.argv[1])
rows, seen, log = [], {}, []
NEWPATH = dict(line.split("\t") for line in (ROOT / ".newpaths.tsv.tmp").read_text().splitlines())
for f in sys.argv[2:]:
    for n, line in enumerate(pathlib.Path(f).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split("\t")
        if len(parts) < 4:
            log.append(f"{f}:{n} malformed: {line}")
            continue
        kind, scope, old, new, note = (parts + [""])[:5]
        old, new = old.strip().removesuffix("()"), new.strip().removesuffix("()")
        if kind == "module" or old == new:
            continue
        if kind == "flag":
            rows.append((kind, None, old, new, note))
            continue
        if not re.fullmatch(r"\w+", old) or not re.fullmatch(r"\w+", new):
            log.append(f"{f}:{n} not a name: {line}")
            continue
        if scope == "global":
            if seen.get(old, new) != new:
                log.append(f"{f}:{n} {old} -> {new}, but also -> {seen[old]}")
                continue
            if old in seen:
                continue
            seen[old] = new
        files = None
        if scope != "global":
            files = {}
            for p in scope.split(","):
                p, _, how = p.strip().partition("#")
                if not p:
                    continue
                q = NEWPATH.get(p, p)
                if (ROOT / q).is_dir():
                    for g in (ROOT / q).rglob("*.py"):
                        files[str(g.relative_to(ROOT))] = how
                elif (ROOT / q).exists():
                    files[q] = how
                else:
                    log.append(f"{f}:{n} no file {p} ({q}) for {old}")
            if not files:
                continue
        rows.append((kind, files, old, new, note))


def tracked():
    out = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [f for f in out.split("\0") if f and (ROOT / f).exists()]


def is_code(name):
    return "_" in name or re.search(r"[a-z][A-Z]|^[A-Z]{2,}$", name) is not None


def in_text(text, maps, docstring=True):
    """renames inside a string or Markdown: maps old->new"""
    code = {o: n for o, n in maps.items() if is_code(o)}
    plain = {o: n for o, n in maps.items() if not is_code(o)}
    if code:
        text = re.sub(
            r"(?<![\w/-])("
            + "|".join(map(re.escape, sorted(code, key=len, reverse=True)))
            + r")(?!\w)",
            lambda m: code[m.group(1)],
            text,
        )
    if plain:
        alt = "|".join(map(re.escape, sorted(plain, key=len, reverse=True)))
        text = re.sub(r"`(" + alt + r")`", lambda m: f"`{plain[m.group(1)]}`", text)
        text = re.sub(
            r"(?<![\w.\"'/-])(" + alt + r")(?==[^=\s])", lambda m: plain[m.group(1)], text
        )
        text = re.sub(
            r"(?m)^(\s+)(" + alt + r")(?=: [A-Z])", lambda m: m.group(1) + plain[m.group(2)], text
        )
        # backticked expressions and doctest lines
        text = re.sub(
            r"`[^`\n]*`",
            lambda m: (
                re.sub(r"\b(" + alt + r")\b", lambda k: plain[k.group(1)], m.group(0))
                if re.search(r"[.(=]", m.group(0))
                else m.group(0)
            ),
            text,
        )
        text = re.sub(
            r"(?m)^(\s*(?:>>>|\.\.\.) )(.*)$",
            lambda m: (
                m.group(1) + re.sub(r"\b(" + alt + r")\b", lambda k: plain[k.group(1)], m.group(2))
            ),
            text,
        )
    return text


def py(path, maps):
    src = path.read_text()
    try:
        toks = list(tokenize.generate_tokens(io.StringIO(src).readline))
    except Exception as e:
        log.append(f"{path}: {e}")
        return
    lines = src.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def pos(rc):
        return starts[rc[0] - 1] + rc[1]

    edits = []
    names, strs = {}, {}
    for o, entries in maps.items():
        for n, flags, how in entries:
            if flags != "s":
                names.setdefault(o, {})[how] = n
            if flags != "n" and how != "name":
                strs.setdefault(o, n)

    def pick(o, attr):
        d = names[o]
        return d.get("attr" if attr else "name", d.get("", o))

    path_tokens = set()
    for i, t in enumerate(toks):
        if t.type == tokenize.NAME and t.string in ("from", "import"):
            if t.string == "from" and toks[i - 1].string in ("yield", "raise"):
                continue
            j = i + 1
            if t.string == "import":
                prev = [x.string for x in toks[max(0, i - 12) : i] if x.start[0] == t.start[0]]
                if "from" in prev:
                    continue
            while j < len(toks) and (
                toks[j].type == tokenize.NAME
                and toks[j].string not in ("import", "as")
                or toks[j].string == "."
            ):
                path_tokens.add(toks[j].start)
                j += 1
    alt = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) if names else None
    for i, t in enumerate(toks):
        if t.type == tokenize.NAME and t.string in names:
            if t.start in path_tokens:
                continue
            attr = i > 0 and toks[i - 1].string in (".", "def", "class")
            new = pick(t.string, attr)
            if new != t.string:
                edits.append((pos(t.start), pos(t.end), new))
        elif t.type == tokenize.STRING:
            m = re.match(r"(?s)([a-zA-Z]*)('''|\"\"\"|'|\")(.*)\2$", t.string)
            prefix, q, body = m.groups()
            new = body
            if body in strs:
                new = strs[body]
            else:
                new = in_text(body, strs)
                if "f" in prefix.lower() and alt:
                    new = re.sub(
                        r"\{[^{}]*\}",
                        lambda k: re.sub(
                            r"(?<![\w\"'])(" + alt + r")(?![\w\"'])",
                            lambda z: pick(z.group(1), k.group(0)[z.start() - 1] == "."),
                            k.group(0),
                        ),
                        new,
                    )
            if new != body:
                edits.append((pos(t.start), pos(t.end), prefix + q + new + q))
        elif t.type == tokenize.COMMENT:
            new = in_text(t.string, strs)
            if new != t.string:
                edits.append((pos(t.start), pos(t.end), new))
    if not edits:
        return
    out, last = [], 0
    for a, b, new in sorted(edits):
        out += [src[last:a], new]
        last = b
    out.append(src[last:])
    path.write_text("".join(out))


# batches: a rename whose `old` is an earlier `new` starts another batch
batches, cur, news = [], [], set()
for r in rows:
    if r[2] in news:
        batches.append(cur)
        cur, news = [], set()
    cur.append(r)
    news.add(r[3])
batches.append(cur)
for batch in batches:
    for f in tracked():
        p = ROOT / f
        maps = {}
        for kind, files, old, new, note in batch:
            if kind == "flag" or (files is not None and f not in files):
                continue
            flags = "n" if "names only" in note else "s" if "strings only" in note else ""
            how = "" if files is None else files[f]
            maps.setdefault(old, []).append((new, flags, how))
        if f.endswith(".py"):
            if maps:
                py(p, maps)
        elif f.endswith((".md", ".ipynb")) and f != "CHANGELOG.md":
            g = {
                o: n
                for kind, files, o, n, note in batch
                if files is None and kind != "flag"
                for _ in [0]
            }
            s = p.read_text()
            n2 = in_text(s, g)
            if f.endswith(".md"):
                alt = "|".join(map(re.escape, sorted(g, key=len, reverse=True)))
                word = re.compile(r"(?<![\w/-])(" + alt + r")(?!\w)")

                def block(m, g=g, word=word):
                    return word.sub(lambda k: g[k.group(1)], m.group(0)) if g else m.group(0)

                n2 = re.sub(r"(?s)```python\n.*?```", block, n2)
            if n2 != s:
                p.write_text(n2)
flags = {o: n for kind, files, o, n, note in rows if kind == "flag"}
if flags:
    alt = "|".join(map(re.escape, sorted(flags, key=len, reverse=True)))
    pat = re.compile(r"(?<![\w-])(" + alt + r")(?![\w-])")
    for f in tracked():
        if f.endswith((".py", ".md", ".ipynb", "Makefile", ".yml")) and f != "CHANGELOG.md":
            p = ROOT / f
            s = p.read_text()
            n = pat.sub(lambda m: flags[m.group(1)], s)
            if n != s:
                p.write_text(n)
print("\n".join(log))
