"""Numbers in words, and in digits: a small language to translate from."""

import numpy as np

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
LIMIT = 1_000_000


def in_words(number: int) -> str:
    """Returns a number from 0 to 999,999 in English words.

    Example:

    >>> in_words(0), in_words(70_142)
    ('zero', 'seventy thousand one hundred forty two')
    """
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, rest = divmod(number, 10)
        return _joined(TENS[tens - 2], rest)
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return _joined(f"{ONES[hundreds]} hundred", rest)
    thousands, rest = divmod(number, 1000)
    return _joined(f"{in_words(thousands)} thousand", rest)


def number_pairs(count: int, seed: int = 0, part: str = "train") -> list[tuple[str, str]]:
    """Returns distinct numbers in words and in digits, drawn so that short ones are among them.

    Args:
        count: Positive int, of at most some ten thousands.
        seed: Int of at least 0.
        part: "train", or "test": numbers above 99 that are never in the other part.

    Example:

    >>> number_pairs(1, seed=4)
    [('ninety four thousand three hundred five', '94305')]
    """
    random, found = np.random.default_rng(seed), {}
    while len(found) < count:
        number = int(random.integers(10 ** random.integers(1, 7)))
        is_test = number > 99 and number * 7919 % 10 == 3
        if is_test == (part == "test"):
            found[in_words(number)] = str(number)
    return list(found.items())


def _joined(text, rest):
    return f"{text} {in_words(rest)}" if rest else text
