"""Installed fonts that hold the characters of a text, for pictures in any script.

Matplotlib draws each character in the first family of a list that holds it. The list is
chosen here: the user's own font first, then whatever is installed and holds the rest,
one family for as many characters as possible, so that a word rarely mixes two.
"""

import functools
import re
import unicodedata

PLACEHOLDER = "□"
# Asked first, so that hundreds of files need not be opened; the rest only if these fail.
PREFERRED = re.compile(
    r"^(Noto Sans|Source Han Sans|WenQuanYi|Droid Sans|PingFang|Hiragino|Microsoft YaHei|SimHei"
    r"|Yu Gothic|Malgun|Arial Unicode|Segoe UI|Nirmala|Lohit|FreeSans|DejaVu Sans$|Noto Emoji)"
)
# Symbol fonts under letters' codes, a font of boxes, and bitmaps matplotlib cannot scale.
UNFIT = re.compile(r"^(Last Resort|STIXNon|STIXSize|cm[a-z]+\d|DejaVu Math|.*Color Emoji)")
# What to install, by the first word of a character's Unicode name: font, Debian package.
EAST_ASIAN_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")
EAST_ASIAN = ("Noto Sans CJK", "fonts-noto-cjk")
SYMBOLS = ("Symbola", "fonts-symbola")
OTHERS = ("Noto Sans", "fonts-noto-core")


def families_for(texts) -> tuple[list[str], set[str]]:
    """Chooses font families that together hold every character of `texts`.

    Args:
        texts: Iterable of str.

    Returns:
        The families, to be given as `family=` of a matplotlib text, and the set of
        characters that no installed font holds.
    """
    from matplotlib import font_manager

    base = font_manager.FontProperties()
    path = font_manager.findfont(base)
    families = [font_manager.FontProperties(fname=path).get_name()]
    missing = _visible("".join(texts)) - _characters(str(path))
    for candidates in (_candidates(preferred=True), _candidates(preferred=False)):
        missing = _cover(missing, candidates, families)
    if missing and _find_new_fonts():
        missing = _cover(missing, _candidates(preferred=None), families)
    return families, missing


def missing_text(missing: set[str]) -> str:
    """Returns the sentences that name the missing characters and what to install."""
    listed = sorted(missing)
    shown = " ".join(f"{char} (U+{ord(char):04X})" for char in listed[:8])
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    remedies = {_remedy(char) for char in listed}
    fonts = " and ".join(font for font, _ in sorted(remedies))
    packages = " ".join(package for _, package in sorted(remedies))
    return (
        f"No installed font holds {shown}{more}: drawn as {PLACEHOLDER}. Install fonts that do, "
        f"such as {fonts} (on Debian and Ubuntu: apt install {packages}), and run again."
    )


def _cover(missing, candidates, families):
    """Adds to `families` those of `candidates` that hold the most of what is missing."""
    while missing:
        held = {name: len(missing & _characters(path)) for name, path in candidates.items()}
        best = max(held, key=lambda name: (held[name], -len(name), name), default=None)
        if best is None or held[best] == 0:
            break
        families.append(best)
        missing = missing - _characters(candidates[best])
    return missing


def _candidates(preferred):
    """Returns file by family of the upright regular fonts; `preferred` None takes all."""
    from matplotlib import font_manager

    entries = [
        entry
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal"
        and not UNFIT.match(entry.name)
        and preferred in (None, bool(PREFERRED.match(entry.name)))
    ]
    # The last one of a name stays: the one nearest to the regular weight.
    entries.sort(key=lambda entry: -abs(_weight(entry.weight) - 400))
    return {entry.name: str(entry.fname) for entry in entries}


def _weight(weight):
    from matplotlib import font_manager

    return font_manager.weight_dict.get(weight, weight)


@functools.cache
def _characters(path):
    """Returns the characters a font file holds; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(chr(code) for code in FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@functools.cache
def _find_new_fonts():
    """Adds fonts installed after matplotlib wrote its list; returns True if there are any."""
    from matplotlib import font_manager

    known = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    new = sorted(set(font_manager.findSystemFonts()) - known)
    for path in new:
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue
    return bool(new)


def _visible(text):
    """Returns the characters that need a glyph: no spaces, controls or variation selectors."""
    invisible = ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
    return {
        char
        for char in set(text)
        if unicodedata.category(char) not in invisible and not "\ufe00" <= char <= "\ufe0f"
    }


def _remedy(char):
    """Returns the font and the Debian package that would show a character."""
    if unicodedata.category(char) == "So" and ord(char) > 0xFFFF:
        return SYMBOLS
    words = unicodedata.name(char, "UNKNOWN").replace("-", " ").split()
    return EAST_ASIAN if words[0] in EAST_ASIAN_NAMES else OTHERS
