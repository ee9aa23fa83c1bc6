"""The forms in which people write dates, by locale, and which of them are ambiguous.

A form is a locale's CLDR pattern with its names and digits, as Babel holds them:
`d. MMMM y` in `de-DE` writes "3. Mai 1979". It is ambiguous when it shares a text with
another form (or with itself) for two different dates: "10/12/2005" is October 12 in
`en-US` and December 10 in `es-ES`. Which forms these are is computed from all their
texts, never decided by taste.
"""

import dataclasses
import datetime
import functools
import itertools
import re
import unicodedata
import warnings

from examples.data.report import DataError
from examples.missing_packages import missing_package_error

BABEL_VERSION = "2.18.0"
FIRST_YEAR, LAST_YEAR = 1900, 2099

LOCALES = tuple(
    "ar-EG am-ET bg-BG bn-BD ca-ES cs-CZ da-DK de-DE el-GR en-GB en-US en-ZA es-ES et-EE eu-ES "
    "fa-IR fi-FI fr-CA fr-FR he-IL hi-IN hr-HR hu-HU hy-AM id-ID it-IT ja-JP ka-GE ko-KR lt-LT "
    "lv-LV mr-IN nb-NO nl-NL pl-PL pt-BR ro-RO ru-RU sv-SE ta-IN th-TH tr-TR uk-UA ur-PK vi-VN "
    "zh-CN zh-TW".split()
)
"""The locales of the data, as language tags."""

STYLES = ("full", "long", "medium", "short")
SKELETONS = ("yMd", "yMEd", "yMMMd", "yMMMEd", "GyMMMd")

# Where another calendar is in daily use, only forms that say which one they follow are
# kept: by the era in Thailand, by the Gregorian month's name in Iran. Elsewhere a
# written era would be odd.
CALENDAR_FIELDS = {"th-TH": "G", "fa-IR": "MMM"}

ZEROS = {
    "arab": "\N{ARABIC-INDIC DIGIT ZERO}",
    "arabext": "\N{EXTENDED ARABIC-INDIC DIGIT ZERO}",
    "beng": "\N{BENGALI DIGIT ZERO}",
    "deva": "\N{DEVANAGARI DIGIT ZERO}",
    "latn": "0",
    "thai": "\N{THAI DIGIT ZERO}",
}
"""Zero in the number systems used. Not here: `hanidec`, which is not decimal, and Tamil's
own digits, which hardly anyone writes today."""

YEAR, MONTH, DAY, WEEKDAY = range(4)  # the fields of a form, in the order of `Form.join`
_DAYS_OF_LEAP_YEAR = [datetime.date(2000, 1, 1) + datetime.timedelta(n) for n in range(366)]


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to write a date in one locale.

    Attributes:
        locale: Language tag, as `"de-DE"`.
        style: CLDR's name of the format or skeleton, as `"long"` or `"yMMMd"`.
        digits: CLDR's name of the number system, as `"latn"`.
        pattern: The CLDR pattern, as `"d. MMMM y"`, with a year of four digits.
        parts: What `join` joins: literals, and pairs of a table of texts and the field that
            chooses from it.
    """

    locale: str
    style: str
    digits: str
    pattern: str
    parts: tuple = dataclasses.field(repr=False, compare=False)

    def write(self, date: datetime.date) -> str:
        """Returns `date` in this form, without a locale symbol."""
        return self.join(date.year - FIRST_YEAR, date.month - 1, date.day - 1, date.weekday())

    def join(self, *fields: int | None) -> str:
        """Returns the text of year, month, day and weekday, all counted from 0.

        A weekday that no date has on that day is written all the same, and None will do
        for it where `has_weekday` is False.
        """
        return "".join([p if type(p) is str else p[0][fields[p[1]]] for p in self.parts])

    @property
    def has_weekday(self) -> bool:
        """Whether the form names the day of the week."""
        return any(type(part) is tuple and part[1] == WEEKDAY for part in self.parts)

    @property
    def symbol(self) -> str:
        """The token that says the locale of an ambiguous form."""
        return f"<{self.locale}>"


@functools.cache
def date_forms() -> tuple[Form, ...]:
    """Returns every distinct form of every locale, in a fixed order."""
    babel = _babel()
    forms = {}
    for tag in LOCALES:
        locale = babel.Locale.parse(tag, sep="-")
        for style, pattern in _patterns(locale):
            if not _says_calendar(tag, pattern):
                continue
            for digits in _number_systems(locale):
                form = Form(tag, style, digits, pattern, _parts(locale, pattern, digits))
                forms.setdefault((tag, form.parts), form)
    return tuple(forms.values())


@functools.cache
def ambiguous_forms() -> frozenset[Form]:
    """Returns the forms that need their locale beside them.

    Exact for all years: a text holds its year as its one number of four digits, so two
    equal texts are of the same year, and one year stands for all once every weekday has
    been tried on every day.
    """
    texts = {}  # text -> {(month, day, weekday): forms}
    for form in date_forms():
        weekdays = range(7) if form.has_weekday else (None,)
        for day in _DAYS_OF_LEAP_YEAR:
            for weekday in weekdays:
                text = form.join(0, day.month - 1, day.day - 1, weekday)
                texts.setdefault(text, {}).setdefault((day, weekday), []).append(form)
    ambiguous = set()
    for days in texts.values():
        for one, other in itertools.combinations(days, 2):
            if _in_one_year(*one, *other):
                ambiguous.update(days[one] + days[other])
    return frozenset(ambiguous)


def locale_symbols() -> list[str]:
    """Returns the symbols that may start a source text, for the tokenizer.

    Only locales with an ambiguous form have one, so none stays untrained.

    Example:

    >>> "<en-US>" in locale_symbols()
    True
    """
    return sorted({form.symbol for form in ambiguous_forms()})


def clean(text: str) -> str:
    """Returns `text` as it is typed: plain spaces, no direction marks, NFC."""
    text = "".join(" " if unicodedata.category(c) == "Zs" else c for c in text)
    return unicodedata.normalize("NFC", re.sub("[\u061c\u200e\u200f\u202a-\u202e]", "", text))


def _babel():
    try:
        import babel
    except ModuleNotFoundError as error:
        raise DataError(missing_package_error("The data set of dates", "babel")) from error
    if babel.__version__ != BABEL_VERSION:
        warnings.warn(
            f"The dates were fixed with Babel {BABEL_VERSION}; Babel {babel.__version__} may "
            f"write some of them differently, and results will differ a little. Install it "
            f"with `pip install babel=={BABEL_VERSION}`.",
            stacklevel=3,
        )
    return babel


def _patterns(locale):
    """Yields (style, pattern), every two-digit year widened to four digits."""
    patterns = {style: locale.date_formats[style].pattern for style in STYLES}
    for name in SKELETONS:
        if name in locale.datetime_skeletons:
            patterns[name] = str(locale.datetime_skeletons[name])
    for style, pattern in patterns.items():
        yield style, re.sub("'[^']*'|y+", lambda m: m[0].replace("yy", "y"), pattern)


def _says_calendar(tag, pattern):
    era = "G" in re.sub("'[^']*'", "", pattern)
    wanted = CALENDAR_FIELDS.get(tag)
    return era if wanted == "G" else not era and (wanted is None or wanted in pattern)


def _number_systems(locale):
    """Returns the default and the native number system, where they are decimal."""
    names = [locale.default_numbering_system, locale.other_numbering_systems.get("native")]
    return [name for name in dict.fromkeys(names) if name in ZEROS]


def _parts(locale, pattern, digits):
    """Returns literals and (table of texts, field), to be joined."""
    from babel.dates import DateTimeFormat, tokenize_pattern

    native = {ord("0") + n: chr(ord(ZEROS[digits]) + n) for n in range(10)}
    years = [datetime.date(year, 1, 1) for year in range(FIRST_YEAR, LAST_YEAR + 1)]
    months = [datetime.date(2001, month, 1) for month in range(1, 13)]
    days = [datetime.date(2001, 1, day) for day in range(1, 32)]
    week = days[:7]  # Monday to Sunday
    fields = {"y": (YEAR, years), "M": (MONTH, months), "L": (MONTH, months), "d": (DAY, days)}
    fields |= {"E": (WEEKDAY, week), "c": (WEEKDAY, week)}

    def text(letters, date):
        return clean(DateTimeFormat(date, locale)[letters].translate(native))

    parts = [""]
    for kind, value in tokenize_pattern(pattern):
        if kind == "field" and value[0] in fields:
            field, dates = fields[value[0]]
            parts += [(tuple(text(value[0] * value[1], date) for date in dates), field), ""]
        elif kind == "field":  # the era, the same in all years
            parts[-1] += text(value[0] * value[1], years[0])
        else:
            parts[-1] += clean(value)
    return tuple(part for part in parts if part)


def _in_one_year(day, weekday, other_day, other_weekday):
    """Whether some year has both weekdays on these days of a leap year's calendar.

    Adding up weekdays is only wrong across February 29 in a common year, so both are tried.
    """
    if day == other_day:
        return False
    if weekday is None or other_weekday is None:
        return True
    leap_day = datetime.date(2000, 2, 29)
    apart = (other_day - day).days
    possible = {apart % 7}
    if leap_day not in (day, other_day) and (day < leap_day) != (other_day < leap_day):
        possible.add((apart - (1 if apart > 0 else -1)) % 7)
    return (other_weekday - weekday) % 7 in possible
