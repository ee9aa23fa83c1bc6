"""Installed fonts that hold the characters of a text, for pictures in any script.

Matplotlib draws each character in the first family of a list that holds it. The list is
chosen here: the user's own font first, then whatever is installed and holds the rest,
one family for as many characters as possible, so that a word rarely mixes two. The fonts of
the extra `fonts` count as installed.
"""

import functools
import importlib.util
import pathlib
import re
import unicodedata

from keras_attention.extras import DISTRIBUTION

PLACEHOLDER = "□"
# Asked first, so that hundreds of files need not be opened; the rest only if these fail.
PREFERRED = re.compile(
    r"^(Noto Sans|Source Han Sans|WenQuanYi|Droid Sans|PingFang|Hiragino|Microsoft YaHei|SimHei"
    r"|Yu Gothic|Malgun|Arial Unicode|Segoe UI|Nirmala|Lohit|FreeSans|DejaVu Sans$|Noto Emoji)"
)
# Symbol fonts under letters' codes, a font of boxes, and bitmaps matplotlib cannot scale.
UNFIT = re.compile(r"^(Last Resort|STIXNon|STIXSize|cm[a-z]+\d|DejaVu Math|.*Color Emoji)")
#: The packages of the extra `fonts`, each a folder of font files under the SIL Open Font License.
PACKAGES = (
    "fontpkg_hind_siliguri",
    "fontpkg_noto_sans_devanagari",
    "fontpkg_noto_sans_tamil",
    "fontpkg_noto_sans_thai",
    "justmytype_intl_africa",
    "noto_cjk_sans_jp_regular",
)
# What to install, by the first word of a character's Unicode name: font, Debian package.
EAST_ASIAN_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")
PACKAGED_NAMES = (*EAST_ASIAN_NAMES, "BENGALI", "DEVANAGARI", "ETHIOPIC", "TAMIL", "THAI")
EAST_ASIAN = ("Noto Sans CJK", "fonts-noto-cjk")
SYMBOLS = ("Symbola", "fonts-symbola")
OTHERS = ("Noto Sans", "fonts-noto-core")

_advised = set()  # in this process: what to install


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
    is_packaged = any(_first_word(char) in PACKAGED_NAMES for char in listed)
    extra = f'Run pip install "{DISTRIBUTION}[fonts]", or install' if is_packaged else "Install"
    return (
        f"No installed font holds {shown}{more}: drawn as {PLACEHOLDER}. {extra} {fonts} (on "
        f"Debian and Ubuntu: apt install {packages}), and start Python again."
    )


def new_advice(missing: set[str]) -> str:
    """Returns `missing_text`, or "" if this process was told before to install these fonts."""
    remedies = {_remedy(char) for char in missing}
    if remedies <= _advised:
        return ""
    _advised.update(remedies)
    return missing_text(missing)


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
    """Adds fonts that are not in matplotlib's list; returns True if there are any.

    They are those installed after it wrote the list, and those of `PACKAGES`.
    """
    from matplotlib import font_manager

    known = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    new = sorted({*font_manager.findSystemFonts(), *_packaged_files()} - known)
    for path in new:
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue
    return bool(new)


def _packaged_files():
    """Returns the font files of those `PACKAGES` that are installed."""
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    folders = [folder for spec in specs if spec for folder in spec.submodule_search_locations]
    return [str(path) for folder in folders for path in pathlib.Path(folder).rglob("*.[ot]tf")]


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
    return EAST_ASIAN if _first_word(char) in EAST_ASIAN_NAMES else OTHERS


def _first_word(char):
    """Returns the first word of a character's Unicode name, which is most scripts' own."""
    return unicodedata.name(char, "UNKNOWN").replace("-", " ").split()[0]
