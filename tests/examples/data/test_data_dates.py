"""The embedded dates: the same everywhere, honest splits, nothing ambiguous."""

import collections
import datetime
import doctest
import random
import re
import sys
import unicodedata

import pytest

from examples.data import __main__ as command
from examples.data import date_forms, dates
from examples.data.parallel import read_pairs
from examples.data.report import DataError


@pytest.fixture(scope="module")
def rows():
    return {split: list(dates.date_rows(split)) for split in dates.DEFAULT_SIZES}


@pytest.fixture(scope="module")
def all_rows(rows):
    return [row for part in rows.values() for row in part]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_default_data_has_the_recorded_digest(rows, split):
    assert len(rows[split]) == dates.DEFAULT_SIZES[split]
    assert dates.digest((row.source, row.target) for row in rows[split]) == dates.DIGESTS[split]


def test_digest_is_that_of_the_written_file(tmp_path):
    import hashlib

    path = dates.write_dates(tmp_path, {"train": 53, "dev": 7, "test": 5})[0]
    assert (
        dates.digest(dates.date_pairs("train", 53)) == hashlib.sha256(path.read_bytes()).hexdigest()
    )


def test_no_date_is_in_two_parts(rows):
    days = {split: {row.date for row in part} for split, part in rows.items()}
    assert not days["train"] & days["dev"]
    assert not days["train"] & days["test"]
    assert not days["dev"] & days["test"]
    assert all(dates.split_of(day) == split for split, part in days.items() for day in part)


def test_split_covers_all_dates_and_holds_out_a_tenth():
    first = datetime.date(1900, 1, 1)
    every = [first + datetime.timedelta(n) for n in range(73_049)]
    assert every[-1] == datetime.date(2099, 12, 31)
    counts = collections.Counter(dates.split_of(day) for day in every)
    assert sum(counts.values()) == 73_049
    assert 0.045 < counts["dev"] / 73_049 < 0.055
    assert 0.045 < counts["test"] / 73_049 < 0.055


def test_at_least_30_locales_are_in_every_part_in_several_styles(rows):
    assert len(date_forms.LOCALES) >= 30
    for part in rows.values():
        counts = collections.Counter(row.form.locale for row in part)
        assert set(counts) == set(date_forms.LOCALES)
        assert max(counts.values()) - min(counts.values()) <= 1
    forms = collections.defaultdict(set)
    for row in rows["test"]:
        forms[row.form.locale].add(row.form.style)
    assert min(len(styles) for styles in forms.values()) >= 3


def test_many_scripts_are_there(all_rows):
    letters = {c for row in all_rows for c in row.source if c.isalpha()}
    scripts = {unicodedata.name(c).split()[0] for c in letters}
    assert scripts >= {
        "LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "DEVANAGARI", "BENGALI", "TAMIL",
        "THAI", "GEORGIAN", "ARMENIAN", "ETHIOPIC", "CJK", "HANGUL",
    }  # fmt: skip
    digits = {unicodedata.name(c) for row in all_rows for c in row.source if c.isdecimal()}
    for system in ("", "ARABIC-INDIC ", "EXTENDED ARABIC-INDIC ", "BENGALI ", "DEVANAGARI "):
        assert f"{system}DIGIT SEVEN" in digits


def test_targets_are_iso_dates_from_1900_to_2099(all_rows):
    for row in all_rows:
        assert datetime.date.fromisoformat(row.target) == row.date
        assert len(row.target) == 10
        assert 1900 <= row.date.year <= 2099


def test_years_have_four_digits_and_are_the_only_long_number(all_rows):
    for row in all_rows:
        numbers = re.findall(r"\d+", row.source)
        years = [int(number) for number in numbers if len(number) > 2]
        assert years == [row.date.year], row
        assert all(len(number) in (1, 2, 4) for number in numbers), row


def test_sources_are_distinct_and_typed_as_people_type(all_rows):
    sources = [row.source for row in all_rows]
    assert len(set(sources[:40_000])) == 40_000
    for source in sources:
        assert unicodedata.is_normalized("NFC", source)
        assert source == source.strip()
        for c in source:
            assert c == " " or unicodedata.category(c) not in ("Zs", "Cc"), (source, c)
            # Joiners belong to the spelling of some words, direction marks do not.
            assert unicodedata.category(c) != "Cf" or c in "\u200c\u200d", (source, c)


def test_ambiguous_forms_carry_their_locale_and_others_do_not(all_rows):
    ambiguous = date_forms.ambiguous_forms()
    seen = collections.Counter()
    for row in all_rows:
        seen[row.form in ambiguous] += 1
        assert row.source.startswith(f"<{row.form.locale}> ") == (row.form in ambiguous)
        assert ("<" in row.source) == (row.form in ambiguous)
    assert seen[True] > 1000 and seen[False] > 30_000


@pytest.mark.thorough
@pytest.mark.parametrize("year", [1903, 1996, 2030])
def test_no_text_with_its_locale_means_two_dates(year):
    # Every text that any form writes in this year, in the simplest way.
    ambiguous = date_forms.ambiguous_forms()
    bare, given = collections.defaultdict(set), collections.defaultdict(set)
    writers = collections.defaultdict(set)
    day = datetime.date(year, 1, 1)
    while day.year == year:
        for form in date_forms.date_forms():
            text = form.write(day)
            bare[text].add(day)
            writers[text].add(form)
            given[f"{form.symbol} {text}" if form in ambiguous else text].add(day)
        day += datetime.timedelta(1)
    assert max(len(days) for days in given.values()) == 1
    colliding = {form for text, days in bare.items() if len(days) > 1 for form in writers[text]}
    assert colliding == ambiguous  # none of them names the weekday, so all years agree


def test_what_is_ambiguous_is_what_a_person_expects():
    ambiguous = {(form.locale, form.pattern) for form in date_forms.ambiguous_forms()}
    assert ("en-US", "M/d/y") in ambiguous
    assert ("en-GB", "dd/MM/y") in ambiguous
    assert not [pattern for locale, pattern in ambiguous if locale in ("de-DE", "ja-JP", "sv-SE")]
    assert not [pattern for _, pattern in ambiguous if "MMM" in pattern]
    assert date_forms.locale_symbols() == sorted({f"<{locale}>" for locale, _ in ambiguous})


def test_collisions_are_found_between_forms_and_within_one(monkeypatch):
    # As "listopada", October in Croatian and November in Polish, would collide if both
    # languages wrote their numbers alike.
    months = tuple("abcdefghijkl")
    days = tuple(str(day) for day in range(1, 32)), date_forms.DAY
    numbers = tuple(str(month) for month in range(1, 13)), date_forms.MONTH
    years = tuple(str(year) for year in range(1900, 2100)), date_forms.YEAR

    def form(tag, *parts):
        return date_forms.Form(tag, "test", "latn", "", parts)

    one = form("A", days, " ", (months, date_forms.MONTH), " ", years)
    shifted = form("B", days, " ", (months[1:] + months[:1], date_forms.MONTH), " ", years)
    joined = form("C", days, numbers, " ", years)  # "111" is January 11 and November 1
    clear = form("D", days, "/", numbers, " ", years)
    monkeypatch.setattr(date_forms, "date_forms", lambda: (one, shifted, joined, clear))
    assert date_forms.ambiguous_forms.__wrapped__() == {one, shifted, joined}


def test_one_year_has_both_weekdays_exactly_when_a_calendar_says_so():
    draw, leap_year = random.Random(11), datetime.date(2000, 1, 1)
    days = [leap_year + datetime.timedelta(n) for n in range(366)]
    pairs = [draw.sample(days, 2) for _ in range(150)]
    pairs += [(datetime.date(2000, 2, 29), day) for day in draw.sample(days, 20)]
    for one, other in pairs:
        possible = set()
        for year in range(1900, 2100):
            try:
                possible.add((one.replace(year=year).weekday(), other.replace(year=year).weekday()))
            except ValueError:  # no February 29
                pass
        computed = {
            (a, b) for a in range(7) for b in range(7) if date_forms._in_one_year(one, a, other, b)
        }
        assert computed == (possible if one != other else set()), (one, other)


def test_forms_write_what_babel_writes():
    from babel.dates import format_date

    compared = 0
    for form in date_forms.date_forms():
        if form.digits != "latn":
            continue
        for day in (datetime.date(1979, 5, 3), datetime.date(2044, 12, 31)):
            text = format_date(day, form.pattern, locale=form.locale.replace("-", "_"))
            assert form.write(day) == date_forms.clean(text)
            compared += 1
    assert compared > 400


def test_native_digits_and_calendars():
    day = datetime.date(1979, 5, 3)
    texts = collections.defaultdict(list)
    for form in date_forms.date_forms():
        texts[form.locale].append(form.write(day))
    assert "৩ মে, ১৯৭৯" in texts["bn-BD"]
    assert {"3 मई 1979", "३ मई १९७९"} <= set(texts["hi-IN"])
    assert "٣/٥/١٩٧٩" in texts["ar-EG"]
    # Numbers alone would be read in another calendar here.
    assert all("ค.ศ." in text for text in texts["th-TH"])
    assert all(not re.fullmatch(r"[\d/ ]+", text) for text in texts["fa-IR"])


def test_a_smaller_size_is_the_beginning_of_a_larger_and_seeds_differ():
    hundred = dates.date_pairs("test", 101)
    assert dates.date_pairs("test", 31) == hundred[:31]
    assert dates.date_pairs("test", 101, seed=1) != hundred


def test_year_span_holds_the_year(all_rows):
    symbols = date_forms.locale_symbols()
    for row in all_rows[::7]:
        start, end = dates.year_span(row.source)
        assert int(row.source[start:end]) == row.date.year
        tokens = list(row.source)
        for symbol in symbols:
            if row.source.startswith(symbol):
                tokens = [symbol, *row.source[len(symbol) :]]
        start, end = dates.year_span(row.source, symbols)
        assert int("".join(tokens[start:end])) == row.date.year
    assert dates.year_span("no year, 12 345 67890") is None


def test_written_files_are_read_back(tmp_path, capsys):
    sizes = ["--train", "61", "--dev", "11", "--test", "7"]
    assert command.main(["dates", "--output-dir", str(tmp_path / "new"), *sizes]) == 0
    paths = capsys.readouterr().out.split()
    assert [path.rsplit("/", 1)[1] for path in paths] == ["train.tsv", "dev.tsv", "test.tsv"]
    for path, split, size in zip(paths, dates.DEFAULT_SIZES, (61, 11, 7), strict=True):
        assert read_pairs(path).pairs == dates.date_pairs(split, size)


def test_command_says_what_is_wrong(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert command.main(["dates", "--output-dir", str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        command.main(["dates", "--output-dir", str(tmp_path), "--dev", "0"])
    assert "a positive number is expected, not 0" in capsys.readouterr().err


def test_other_babel_is_told(monkeypatch):
    import babel

    monkeypatch.setattr(babel, "__version__", "2.9.1")
    with pytest.warns(UserWarning, match=r"Babel 2\.9\.1 may write.*babel==2\.18\.0"):
        date_forms._babel()


def test_missing_babel_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(
        DataError, match=r'pip install -e "\.\[export,fonts,plot,serve\]" --group examples'
    ):
        date_forms._babel()


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="Received: split='valid'"):
        dates.date_pairs("valid")
    with pytest.raises(ValueError, match="Received: size=0"):
        dates.date_pairs("test", 0)
    with pytest.raises(DataError, match="Ask for fewer"):
        dates.date_pairs("test", 10_000_000)


@pytest.mark.parametrize("module", [dates, date_forms])
def test_examples_in_docstrings_run(module):
    results = doctest.testmod(module)
    assert results.attempted and not results.failed


def test_tokenizer_of_the_export_keeps_the_year_where_the_span_says():
    from examples.data.batches import Batches
    from keras_attention.export import tokenizers

    pairs = dates.date_pairs("train", 211)
    symbols = date_forms.locale_symbols()
    source = tokenizers.train("characters", [text for text, _ in pairs], symbols=symbols)
    target = tokenizers.train("characters", [text for _, text in pairs])
    batches = Batches.from_pairs(pairs, source, target, batch_size=31)
    assert batches.report.used == 211
    with_symbol = 0
    for inputs, labels, index in batches.evaluation():
        tokens = source.ids_to_tokens(inputs["source"]).numpy()
        written = target.decode(labels).numpy()
        for row, iso, place in zip(tokens, written, index.numpy(), strict=True):
            if place < 0:
                continue
            start, end = dates.year_span(pairs[place][0], symbols)
            year = int(b"".join(row[start:end]).decode())
            assert iso.decode() == pairs[place][1] and iso.decode().startswith(str(year))
            with_symbol += row[0].decode() in symbols
    assert with_symbol > 5
