"""Translators from several sources: texts that hold all of them, and the checks of these texts."""

import dataclasses

from examples.commands.arguments import UsageError
from examples.data.report import DataError
from examples.data.sources import SEPARATOR
from examples.models.encoders.several_sources import SEPARATOR_ID
from examples.recipes.translation import Translation
from keras_attention.export.tokenizers import Tokenizer


@dataclasses.dataclass(kw_only=True)
class MultiSourceTranslation(Translation):
    """Learns to write the target of several sources, which are one text, separated by <sep>.

    examples:
      make files of lines such as "ein hund <sep> un chien":
        python -m examples.data join train.de train.fr --output train.de-fr
      train on them as on a single source; all commands take such texts:
        python -m examples train {0} --run runs/two --source train.de-fr --target train.en \\
            --tokenizer words --max-minutes 60
    """

    def check(self) -> None:
        if not self.has_own_data:
            raise UsageError(
                "A model of several sources has no data of its own. Name --source and --target, "
                f"or --pairs, whose sources are texts separated by {SEPARATOR}; "
                "`python -m examples.data join` makes them."
            )
        super().check()

    def read_data(self) -> dict[str, list[tuple[str, str]]]:
        data, expected = super().read_data(), self.model_options["num_sources"]
        are_words = self._get_kinds()[0] == "words"  # <sep> is one only between spaces
        for name, pairs in data.items():
            found = [
                source
                for source, _ in pairs
                if (source.split() if are_words else source).count(SEPARATOR) != expected - 1
            ]
            if found:
                raise DataError(
                    f"{len(found):,} of {len(pairs):,} {name} texts have a different number of "
                    f"sources than {expected}, separated by {SEPARATOR}. Make the files with "
                    "`python -m examples.data join`, or set --num-sources. "
                    f"Received: {found[0][:80]!r}"
                )
        return data

    def get_symbols(self) -> tuple[str, ...]:
        return (SEPARATOR,)

    def make_tokenizers(self, training: list[tuple[str, str]]) -> dict[str, Tokenizer]:
        made = super().make_tokenizers(training)
        ids = made["source"].encode([SEPARATOR])[0].numpy().tolist()
        if SEPARATOR_ID not in ids[0]:
            raise ValueError(
                f"The source tokenizer gives {SEPARATOR} another id than {SEPARATOR_ID}, by which "
                f"the encoder knows it. Choose another --tokenizer. Received: ids {ids[0]}"
            )
        return made
