"""Fonts are found for any script, or what is missing is named."""

import pathlib
import tomllib
import unicodedata

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from keras_attention.plotting import _fonts

font_manager = pytest.importorskip("matplotlib.font_manager")


def make_font(path, family, characters):
    """Writes a font whose glyphs for `characters` are boxes."""
    names = [".notdef", *(f"u{ord(char):X}" for char in characters)]
    builder = FontBuilder(1000)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): f"u{ord(char):X}" for char in characters})
    pen = TTGlyphPen(None)
    for step, point in enumerate([(50, 0), (50, 700), (850, 700), (850, 0)]):
        (pen.lineTo if step else pen.moveTo)(point)
    pen.closePath()
    box = pen.glyph()
    builder.setupGlyf({name: box for name in names})
    builder.setupHorizontalMetrics({name: (900, 50) for name in names})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    builder.save(path)
    return path


@pytest.fixture
def package_fonts(monkeypatch):
    """A machine that has the fonts of matplotlib and of Python packages, and no others."""
    manager = font_manager.fontManager
    own = [entry for entry in manager.ttflist if "mpl-data" in str(entry.fname)]
    monkeypatch.setattr(manager, "ttflist", own)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda *arguments, **named: [])
    _fonts._find_new_fonts.cache_clear()
    yield manager
    _fonts._find_new_fonts.cache_clear()


@pytest.fixture
def bare(package_fonts, monkeypatch):
    """A machine on which only the fonts that come with matplotlib are installed."""
    monkeypatch.setattr(_fonts, "PACKAGES", ())
    return package_fonts


def test_latin_greek_and_cyrillic_need_no_second_font(bare):
    families, missing = _fonts.choose_families(["Über", "γλώσσα", "четверг"])
    assert families == ["DejaVu Sans"] and missing == set()


def test_the_family_that_holds_the_rest_is_added(bare, tmp_path):
    bare.addfont(make_font(tmp_path / "few.ttf", "Few Signs", "年"))
    bare.addfont(make_font(tmp_path / "han.ttf", "Han Signs", "年月日"))
    families, missing = _fonts.choose_families(["1979年5月3日"])
    assert families == ["DejaVu Sans", "Han Signs"] and missing == set()


def test_two_scripts_take_two_families(bare, tmp_path):
    bare.addfont(make_font(tmp_path / "a.ttf", "Noto Sans Han", "年"))
    bare.addfont(make_font(tmp_path / "b.ttf", "Unusual Indic", "ग"))
    families, missing = _fonts.choose_families(["年", "ग", "a"])
    assert sorted(families[1:]) == ["Noto Sans Han", "Unusual Indic"] and missing == set()


def test_a_font_installed_after_matplotlib_made_its_list_is_found(bare, tmp_path, monkeypatch):
    path = str(make_font(tmp_path / "late.ttf", "Late Han", "月"))
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda *arguments, **named: [path])
    families, missing = _fonts.choose_families(["月"])
    assert families == ["DejaVu Sans", "Late Han"] and missing == set()


def test_what_no_font_holds_is_returned(bare):
    families, missing = _fonts.choose_families(["a年月", "日"])
    assert families == ["DejaVu Sans"] and missing == set("年月日")


def test_the_box_of_last_resort_is_no_font_for_reading(bare):
    families, _ = _fonts.choose_families(["年"])
    assert not any(name.startswith("Last Resort") for name in families)


def test_spaces_controls_and_selectors_need_no_glyph(bare):
    assert _fonts.choose_families(["a \u200d\u202e\ufe0f\u3000\n"])[1] == set()


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("年", '(U+5E74): drawn as □. Run pip install "keras-attention-layers[fonts]", or install'),
        ("한", "apt install fonts-noto-cjk)"),
        ("ग", "or install Noto Sans (on Debian and Ubuntu: apt install fonts-noto-core)"),
        ("ᠠ", "drawn as □. Install Noto Sans (on Debian"),
        ("👍", "apt install fonts-symbola)"),
        ("ก年", "or install Noto Sans and Noto Sans CJK"),
        ("абвгдежзик", " and 2 more: drawn"),
    ],
)
def test_the_message_names_characters_and_remedy(missing, expected):
    assert expected in _fonts.describe_missing(set(missing))


def test_a_process_is_advised_once_of_each_font(monkeypatch):
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    assert _fonts.advise_once(set()) == ""
    assert "年" in _fonts.advise_once({"年"})
    assert _fonts.advise_once({"月", "年"}) == "", "the same font would hold it"
    assert "ग" in _fonts.advise_once({"年", "ग"})
    assert _fonts.advise_once({"年", "ग"}) == ""


SCRIPTS = "年月日 こんにちは カタカナ 한국어 中文 漢字 हिन्दी বাংলা தமிழ் ภาษาไทย አማርኛ"


def test_the_extra_of_fonts_holds_the_scripts_it_promises(package_fonts):
    assert _fonts.choose_families([SCRIPTS])[1] == set()
    named = {_fonts._get_first_word(char) for char in SCRIPTS if unicodedata.category(char) == "Lo"}
    assert named - {"CJK", "HIRAGANA", "KATAKANA", "HANGUL"} == set(_fonts.PACKAGED_NAMES) - {
        *_fonts.EAST_ASIAN_NAMES
    }


def test_the_packages_are_those_of_the_extra():
    root = pathlib.Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["fonts"]
    names = {line.partition(">")[0].replace("-", "_") for line in extra if ">" in line}
    assert names == set(_fonts.PACKAGES)
