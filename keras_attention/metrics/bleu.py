"""Corpus BLEU of Papineni et al. 2002, as sacrebleu computes it (Post 2018)."""

import itertools
from collections.abc import Sequence

import keras

from keras_attention import validation
from keras_attention._utils.tensor_types import Config, DTypePolicy
from keras_attention.metrics._text_checks import Reference, pair_texts
from keras_attention.validation import missing_package_error


@keras.saving.register_keras_serializable(package="keras_attention")
class BLEU(keras.metrics.Metric):
    """Computes the corpus BLEU of decoded texts, from 0 to 100, by sacrebleu.

    Scores compare only with scores of the same tokenization: report `signature` with them. The
    texts are kept until `reset_state`. The score is 0 before the first update.

    Args:
        tokenize: Str, sacrebleu's tokenizer: "13a" for raw text of most languages, "none" for
            tokenized text, which is split at spaces only.
        lowercase: Whether texts are compared in lower case.
        name: Optional str.
        dtype: Optional dtype, of no effect: the result is a Python float.

    Call arguments:
        references: List of strings; instead of one, a list of all that are accepted.
        hypotheses: List of as many strings, what the model wrote.

    Raises:
        ImportError: If sacrebleu is not installed.
        ValueError: If `tokenize` is unknown, or the texts are not lists of strings of one length.

    Example:

    >>> bleu = BLEU()
    >>> bleu.update_state(["the dog sleeps on the red sofa"], ["the dog sleeps on a sofa"])
    >>> round(bleu.result(), 2)
    45.48

    Reference: Post 2018, https://aclanthology.org/W18-6319.
    """

    def __init__(
        self,
        tokenize: str = "13a",
        lowercase: bool = False,
        name: str | None = "bleu",
        dtype: DTypePolicy | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        try:
            from sacrebleu.metrics import BLEU as SacreBLEU
        except ModuleNotFoundError as error:
            raise missing_package_error("BLEU", "sacrebleu", "metrics") from error
        self.tokenize: str = validation.check_one_of(
            "BLEU", "tokenize", tokenize, tuple(SacreBLEU.TOKENIZERS)
        )
        self.lowercase: bool = lowercase
        # force: no warning about tokenized texts.
        self._scorer = SacreBLEU(tokenize=tokenize, lowercase=lowercase, force=True)
        self.reset_state()

    def update_state(self, references: Sequence[Reference], hypotheses: Sequence[str]) -> None:
        self._pairs.extend(pair_texts("BLEU", references, hypotheses))

    def result(self) -> float:
        if not self._pairs:
            return 0.0
        references, hypotheses = zip(*self._pairs, strict=True)
        streams = itertools.zip_longest(*references)  # the first references, the second, ...
        return self._scorer.corpus_score(list(hypotheses), list(map(list, streams))).score

    @property
    def signature(self) -> str:
        """How the last result was computed, in sacrebleu's words."""
        return str(self._scorer.get_signature())

    def reset_state(self) -> None:
        self._pairs = []

    def get_config(self) -> Config:
        config = {"tokenize": self.tokenize, "lowercase": self.lowercase}
        return {**super().get_config(), **config}
