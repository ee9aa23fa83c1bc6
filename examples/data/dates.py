"""The embedded default data: dates as people write them, to ISO 8601.

    "Donnerstag, 3. Mai 1979" -> "1979-05-03"
    "<en-US> 5/3/1979"        -> "1979-05-03"

Made on the spot from the forms in `date_forms`, the same on every machine: the draws
come from a seed, and the digest of the default data is tested. No date of the test or
dev part is in another part, in any form.
"""

import datetime
import functools
import hashlib
import pathlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from examples.data.date_forms import (
    FIRST_YEAR,
    LAST_YEAR,
    LOCALES,
    Form,
    ambiguous_forms,
    date_forms,
    locale_symbols,
)
from examples.data.report import DataError
from keras_attention.data import atomic_files

__all__ = [
    "DEFAULT_SIZES",
    "DIGESTS",
    "DateRow",
    "choose_shown_dates",
    "date_pairs",
    "date_rows",
    "digest",
    "locale_symbols",
    "split_of",
    "write_dates",
    "year_span",
]

DEFAULT_SIZES = {"train": 40_000, "dev": 2_000, "test": 2_000}
"""Texts in each part."""

DIGESTS = {
    "train": "bc57bbfd91501adf1ce5a02483db0826fc598989d1fd797f8c2a7a07b2b36e01",
    "dev": "bb2968cb6e0a71c81345f4fd1ca14f37cd9b8d475ce594df443dbeac37c7783c",
    "test": "981c8c725fa129b5447da4e6b8b9cc98e90b0cf074d166afcf5fba865d4154d8",
}
"""SHA-256 of the default parts with seed 0, see `digest`."""


SHOWN_FORMS = (
    ("en-US", "full"),
    ("de-DE", "long"),
    ("fr-FR", "yMMMEd"),
    ("ru-RU", "long"),
    ("ja-JP", "full"),
    ("ar-EG", "long"),
    ("hi-IN", "medium"),
    ("el-GR", "full"),
    ("en-US", "short"),
)
"""Locale and style of the unseen dates that are drawn if no texts are named."""


class DateRow(NamedTuple):
    """One pair and where it comes from."""

    source: str
    target: str
    form: Form
    date: datetime.date


def date_pairs(
    split: str = "train", size: int | None = None, seed: int = 0
) -> list[tuple[str, str]]:
    """Returns `(text, ISO date)` pairs; the arguments are those of `date_rows`.

    Example:

    >>> source, target = date_pairs("dev", size=1)[0]
    >>> datetime.date.fromisoformat(target).year in range(1900, 2100)
    True
    """
    return [(row.source, row.target) for row in date_rows(split, size, seed)]


def date_rows(split: str = "train", size: int | None = None, seed: int = 0) -> Iterator[DateRow]:
    """Yields distinct texts: the locales in turn, form and date drawn from `seed`.

    A smaller `size` gives the beginning of a larger one.

    Args:
        split: `"train"`, `"dev"` or `"test"`.
        size: How many texts; None for `DEFAULT_SIZES[split]`.
        seed: Int, the seed of the draws. The split does not depend on it.

    Raises:
        DataError: If Babel is missing, or there are not that many texts.
        ValueError: If `split` is unknown or `size` is not a positive int.
    """
    if split not in DEFAULT_SIZES:
        raise ValueError(
            f"`split` must be one of 'train', 'dev', 'test'. Received: split={split!r}"
        )
    size = DEFAULT_SIZES[split] if size is None else size
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"`size` must be a positive int. Received: size={size!r}")
    days, forms, ambiguous = _days()[split], _forms_by_locale(), ambiguous_forms()
    possible = len(days) * len(LOCALES)
    if size > possible:
        raise DataError(
            f"The {split} part has {possible:,} texts at most. Ask for fewer. Received: size={size}"
        )
    draw = random.Random(f"dates/{split}/{seed}").random  # the same in every Python version
    seen = set()
    while len(seen) < size:
        locale_forms = forms[LOCALES[len(seen) % len(LOCALES)]]
        form = locale_forms[int(draw() * len(locale_forms))]
        day = days[int(draw() * len(days))]
        source = form.write(day)
        if form in ambiguous:
            source = f"{form.symbol} {source}"
        if source not in seen:
            seen.add(source)
            yield DateRow(source, day.isoformat(), form, day)


def choose_shown_dates() -> list[str]:
    """Returns an unseen date for each of `SHOWN_FORMS`."""
    texts = {}
    for row in date_rows("test"):
        texts.setdefault((row.form.locale, row.form.style), row.source)
    return [texts[form] for form in SHOWN_FORMS if form in texts]


def split_of(date: datetime.date) -> str:
    """Returns the part `date` belongs to: one date in 20 is dev, one test, the rest train."""
    number = int.from_bytes(hashlib.sha256(f"split {date.isoformat()}".encode()).digest()[:4])
    return {0: "dev", 1: "test"}.get(number % 20, "train")


def year_span(text: str, symbols: Sequence[str] = ()) -> tuple[int, int] | None:
    """Returns where the year stands, as `(start, end)` in characters, or None.

    Give `symbols` to count as a character tokenizer with these symbols does, for which a
    symbol at the start is one token: then the span indexes an alignment's source axis.

    Args:
        text: A source text; the year is its one number of four digits, of any script.
        symbols: The multi-character symbols that may start a text, see `locale_symbols`.

    Example:

    >>> year_span("<en-US> 5/3/1979")
    (12, 16)
    >>> year_span("<en-US> 5/3/1979", symbols=["<en-US>"])
    (6, 10)
    """
    match = re.search(r"(?<!\d)\d{4}(?!\d)", text)
    if match is None:
        return None
    hidden = max((len(s) - 1 for s in symbols if text.startswith(s)), default=0)
    return match.start() - hidden, match.end() - hidden


def digest(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns the SHA-256 of `pairs` as lines of a TSV file."""
    sha = hashlib.sha256()
    for source, target in pairs:
        sha.update(f"{source}\t{target}\n".encode())
    return sha.hexdigest()


def write_dates(
    directory: str, sizes: dict[str, int] | None = None, seed: int = 0
) -> list[pathlib.Path]:
    """Writes `train.tsv`, `dev.tsv` and `test.tsv` of `text<TAB>ISO date` lines.

    Returns:
        The paths written, which `examples.data.parallel.read_pairs` reads.

    Raises:
        DataError: If `directory` cannot be written.
    """
    folder, paths = pathlib.Path(directory), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for split, default in DEFAULT_SIZES.items():
            pairs = date_pairs(split, (sizes or {}).get(split, default), seed)
            paths.append(folder / f"{split}.tsv")
            lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
            atomic_files.write_bytes(paths[-1], lines.encode())
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written ({error.strerror}). Name a folder that can."
        ) from error
    return paths


@functools.cache
def _days():
    """Returns all dates by the part they belong to."""
    first, last = datetime.date(FIRST_YEAR, 1, 1), datetime.date(LAST_YEAR, 12, 31)
    days = {split: [] for split in DEFAULT_SIZES}
    for number in range((last - first).days + 1):
        day = first + datetime.timedelta(number)
        days[split_of(day)].append(day)
    return days


@functools.cache
def _forms_by_locale():
    forms = {tag: [] for tag in LOCALES}
    for form in date_forms():
        forms[form.locale].append(form)
    return forms
