"""Alignment error rate, Och and Ney 2003 (https://aclanthology.org/J03-1002).

    AER       = 1 - (|A & S| + |A & P|) / (|A| + |S|)
    precision = |A & P| / |A|,  recall = |A & S| / |S|

A: the links that are measured, S: the sure links of the reference, P: the possible ones, of which
the sure ones are a part. The numbers are sums over all sentence pairs.
"""

from collections.abc import Sequence

import keras

from keras_attention._utils.tensor_types import DTypePolicy, Links


@keras.saving.register_keras_serializable(package="keras_attention")
class AlignmentErrorRate(keras.metrics.Metric):
    """Computes the error rate of word alignments; 0 is perfect, 1 the worst.

    A link is a pair `(source, target)` of word positions. `keras_attention.data.read_links` reads
    links from Pharaoh files, `keras_attention.data.find_links` takes them from attention weights.
    The sums are exact. The rate is 0 before the first link.

    Args:
        name: Optional str.
        dtype: Optional dtype, of no effect: the result is a Python float.

    Call arguments:
        references: List of sets of links, the sure links of each sentence pair.
        hypotheses: List of as many sets of links.
        possible: Optional list of as many sets: links that are not wrong, but need not be found.
            Sure links are possible in any case.

    Raises:
        ValueError: If these are not lists of one length, or a link is no pair of ints.

    Example:

    >>> rate = AlignmentErrorRate()
    >>> rate.update_state([{(0, 0), (1, 2)}], [{(0, 0), (1, 1), (2, 1)}], possible=[{(1, 1)}])
    >>> rate.result(), rate.recall  # 1 - (1 + 2) / (3 + 2)
    (0.4, 0.5)

    Reference: Och and Ney 2003, https://aclanthology.org/J03-1002, section 4.
    """

    def __init__(
        self, name: str | None = "alignment_error_rate", dtype: DTypePolicy | None = None
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        self.reset_state()

    def update_state(
        self,
        references: Sequence[Links],
        hypotheses: Sequence[Links],
        possible: Sequence[Links] | None = None,
    ) -> None:
        received = {"references": references, "hypotheses": hypotheses}
        sets = {name: _check_links(name, links) for name, links in received.items()}
        if possible is None:
            sets["possible"] = [set()] * len(references)
        else:
            sets["possible"] = _check_links("possible", possible)
        if len({len(links) for links in sets.values()}) > 1:
            counts = ", ".join(f"{len(links)} {name}" for name, links in sets.items())
            raise ValueError(
                "AlignmentErrorRate expects links for each sentence pair, an empty set where there "
                f"are none. Received: {counts}"
            )
        for sure, found, also in zip(*sets.values(), strict=True):
            self.num_links += len(found)
            self.num_sure += len(sure)
            self.num_found_sure += len(found & sure)
            self.num_found_possible += len(found & (sure | also))

    def result(self) -> float:
        count = self.num_links + self.num_sure
        return (count - self.num_found_sure - self.num_found_possible) / max(count, 1)

    @property
    def precision(self) -> float:
        """The fraction of the links that are possible; 0 without any link."""
        return self.num_found_possible / max(self.num_links, 1)

    @property
    def recall(self) -> float:
        """The fraction of the sure links that were found; 0 without any."""
        return self.num_found_sure / max(self.num_sure, 1)

    def reset_state(self) -> None:
        self.num_links = self.num_sure = self.num_found_sure = self.num_found_possible = 0


def _check_links(name, links):
    """Returns a list of sets."""
    if not isinstance(links, (list, tuple)):
        raise ValueError(
            f"AlignmentErrorRate expects `{name}` to be a list of sets of links, (source, target) "
            "each. It has no place in `model.compile`: take links from weights with "
            f"`keras_attention.data.find_links`. Received: {name}={links!r}"
        )
    for number, each in enumerate(links):
        if not all(isinstance(link, tuple) and len(link) == 2 for link in each):
            raise ValueError(
                "AlignmentErrorRate expects links that are pairs of word positions, such as "
                f"(0, 1). Received: {name}[{number}]={each!r}"
            )
    return [set(each) for each in links]
