"""Installed fonts that contain the characters of a text, for plots in any script.

Matplotlib draws each character in the first family of a list that contains it. This module selects
the list: the user's own font first, then installed fonts for the remaining characters. Each family
covers as many characters as possible, so that a word rarely mixes two. The fonts of the extra
`fonts` count as installed.
"""

import functools
import importlib.util
import pathlib
import re
import unicodedata

from keras_attention.validation.optional_packages import DISTRIBUTION

PLACEHOLDER = "□"
# Searched first, so that hundreds of files need not be opened; the rest only if these fail.
PREFERRED = re.compile(
    r"^(Noto Sans|Source Han Sans|WenQuanYi|Droid Sans|PingFang|Hiragino|Microsoft YaHei|SimHei"
    r"|Yu Gothic|Malgun|Arial Unicode|Segoe UI|Nirmala|Lohit|FreeSans|DejaVu Sans$|Noto Emoji)"
)
# Symbol fonts that reuse the codes of letters, a font of boxes, and bitmaps that do not scale.
UNUSABLE = re.compile(r"^(Last Resort|STIXNon|STIXSize|cm[a-z]+\d|DejaVu Math|.*Color Emoji)")
#: The packages of the extra `fonts`, each a folder of font files under the SIL Open Font License.
PACKAGES = (
    "fontpkg_hind_siliguri",
    "fontpkg_noto_sans_devanagari",
    "fontpkg_noto_sans_tamil",
    "fontpkg_noto_sans_thai",
    "justmytype_intl_africa",
    "noto_cjk_sans_jp_regular",
)
# Fonts to install, by the first word of a character's Unicode name: font, Debian package.
EAST_ASIAN_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")
PACKAGED_NAMES = (*EAST_ASIAN_NAMES, "BENGALI", "DEVANAGARI", "ETHIOPIC", "TAMIL", "THAI")
EAST_ASIAN = ("Noto Sans CJK", "fonts-noto-cjk")
SYMBOLS = ("Symbola", "fonts-symbola")
OTHERS = ("Noto Sans", "fonts-noto-core")

_advised_fonts = set()  # fonts that this process has already recommended


def choose_families(texts) -> tuple[list[str], set[str]]:
    """Selects font families that together contain every character of `texts`.

    Args:
        texts: Iterable of str.

    Returns:
        The families, for `family=` of a matplotlib text, and the set of
        characters that no installed font contains.
    """
    from matplotlib import font_manager

    base = font_manager.FontProperties()
    path = font_manager.findfont(base)
    families = [font_manager.FontProperties(fname=path).get_name()]
    missing = _find_visible("".join(texts)) - _read_characters(str(path))
    for candidates in (_list_candidates(preferred=True), _list_candidates(preferred=False)):
        missing = _add_families(missing, candidates, families)
    if missing and _find_new_fonts():
        missing = _add_families(missing, _list_candidates(preferred=None), families)
    return families, missing


def describe_missing(missing: set[str]) -> str:
    """Returns a message that lists the missing characters and the fonts to install."""
    listed = sorted(missing)
    shown = " ".join(f"{char} (U+{ord(char):04X})" for char in listed[:8])
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    remedies = {_recommend_font(char) for char in listed}
    fonts = " and ".join(font for font, _ in sorted(remedies))
    packages = " ".join(package for _, package in sorted(remedies))
    is_packaged = any(_get_first_word(char) in PACKAGED_NAMES for char in listed)
    extra = f'Run pip install "{DISTRIBUTION}[fonts]", or install' if is_packaged else "Install"
    return (
        f"No installed font contains {shown}{more}: drawn as {PLACEHOLDER}. {extra} {fonts} (on "
        f"Debian and Ubuntu: apt install {packages}), and start Python again."
    )


def advise_once(missing: set[str]) -> str:
    """Returns `describe_missing`, or "" if this process has already recommended these fonts."""
    remedies = {_recommend_font(char) for char in missing}
    if remedies <= _advised_fonts:
        return ""
    _advised_fonts.update(remedies)
    return describe_missing(missing)


def _add_families(missing, candidates, families):
    """Adds to `families` those of `candidates` that contain most of the missing characters."""
    while missing:
        held = {name: len(missing & _read_characters(path)) for name, path in candidates.items()}
        best = max(held, key=lambda name: (held[name], -len(name), name), default=None)
        if best is None or held[best] == 0:
            break
        families.append(best)
        missing = missing - _read_characters(candidates[best])
    return missing


def _list_candidates(preferred):
    """Returns files of upright regular fonts by family; `preferred` None selects all."""
    from matplotlib import font_manager

    entries = [
        entry
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal"
        and not UNUSABLE.match(entry.name)
        and preferred in (None, bool(PREFERRED.match(entry.name)))
    ]
    # For fonts of the same name the last one is kept: the nearest to the regular weight.
    entries.sort(key=lambda entry: -abs(_get_weight(entry.weight) - 400))
    return {entry.name: str(entry.fname) for entry in entries}


def _get_weight(weight):
    from matplotlib import font_manager

    return font_manager.weight_dict.get(weight, weight)


@functools.cache
def _read_characters(path):
    """Returns the characters that a font file contains; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(chr(code) for code in FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


@functools.cache
def _find_new_fonts():
    """Registers fonts that are not in matplotlib's list; returns True if there are any.

    They are fonts installed after matplotlib wrote the list, and those of `PACKAGES`.
    """
    from matplotlib import font_manager

    known = {str(entry.fname) for entry in font_manager.fontManager.ttflist}
    new = sorted({*font_manager.findSystemFonts(), *_list_packaged_files()} - known)
    for path in new:
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError):
            continue
    return bool(new)


def _list_packaged_files():
    """Returns the font files of those `PACKAGES` that are installed."""
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    folders = [folder for spec in specs if spec for folder in spec.submodule_search_locations]
    return [str(path) for folder in folders for path in pathlib.Path(folder).rglob("*.[ot]tf")]


def _find_visible(text):
    """Returns the characters that need a glyph: no spaces, controls or variation selectors."""
    invisible = ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
    return {
        char
        for char in set(text)
        if unicodedata.category(char) not in invisible and not "\ufe00" <= char <= "\ufe0f"
    }


def _recommend_font(char):
    """Returns the font and the Debian package that contain a character."""
    if unicodedata.category(char) == "So" and ord(char) > 0xFFFF:
        return SYMBOLS
    return EAST_ASIAN if _get_first_word(char) in EAST_ASIAN_NAMES else OTHERS


def _get_first_word(char):
    """Returns the first word of a character's Unicode name, usually that of its script."""
    return unicodedata.name(char, "UNKNOWN").replace("-", " ").split()[0]
