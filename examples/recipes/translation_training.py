"""The training of translators: options, pairs of texts, tokenizers, batches and measures."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Sequence
from typing import ClassVar, Literal

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import (
    Fraction,
    NonNegativeFloat,
    OpenFraction,
    VocabularySize,
    options_of,
)
from examples.data import dates
from examples.data.batches import Batches
from examples.data.pair_files import PairFiles, References, hold_out
from examples.data.parallel import FORMATS, Corpus
from examples.data.report import Report
from examples.data.shards import ShardBatches, Shards
from examples.recipes import text_metrics
from examples.recipes.guided_alignment import GuidedRecipe
from examples.recipes.reference_metrics import make_token_metrics
from examples.recipes.translator import TextTranslator
from examples.training.settings import Measure
from keras_attention import TokenCrossentropy
from keras_attention.decoders import get_decoder_start_id
from keras_attention.export import SearchOptions, runs, tokenizers
from keras_attention.export.length_limits import choose_max_length, count_learned_positions
from keras_attention.export.tokenizers import SUBWORD_KINDS, TOKENIZER_CLASSES, Tokenizer

TokenizerKind = Literal[tuple(TOKENIZER_CLASSES)]
Format = Literal[tuple(FORMATS)]
OF_SHARDS = ("epoch_batches", "shuffle_buffer", "sample_pairs")


@dataclasses.dataclass(kw_only=True)
class TranslationTraining(GuidedRecipe):
    """Options, data and training of translators; see `Translation`.

    Attributes:
        source: Source side of the training data, one text a line, plain or .gz; by default the
            embedded dates are learned.
        target: Target side, line by line; by default as --source.
        pairs: A file with source<TAB>target in each line, instead of both; by default as --source.
        format: What a line of pairs is, source<TAB>target (tsv), the same with further columns that
            are targets too (targets), or `IN: source OUT: target` (scan); tsv by default.
        validation_source: Source side of the validation data; by default a fraction of the training
            data.
        validation_target: Target side of the validation data; by default as --validation-source.
        validation_pairs: A file of validation pairs, instead of both; by default as
            --validation-source.
        shards: Training data larger than memory, instead of other files: files or quoted patterns,
            source<TAB>target a line, plain or .gz, or *.tfrecord of tf.train.Example with the
            bytes features source and target; read while training, needs --epoch-batches and
            validation files; none by default.
        epoch_batches: Batches in an epoch, for --shards only; each epoch begins with other
            shards; none by default.
        shuffle_buffer: Pairs of shards among which the next one is drawn.
        sample_pairs: First pairs of the shards, from which tokenizers and length buckets are made.
        validation_fraction: Fraction of the sources held out with all their targets where no
            validation files are named.
        max_examples: Take only the first N pairs of each part, to try things out; all by default.
        invalid_lines: What to do with empty, overlong or undecodable lines; all are counted, the
            first of each kind reported by line number.
        tokenizer: What a token is; words are what stands between spaces; by default characters
            for the dates, sentencepiece for your files.
        source_tokenizer: What a token of the source is; as --tokenizer by default.
        target_tokenizer: What a token of the target is; as --tokenizer by default.
        joint_vocabulary: One tokenizer made from both sides, for both.
        vocabulary_size: Ids of each side at most; by default 8000 for subwords, else no limit.
        min_frequency: Characters or words seen less often are unknown.
        lowercase: Lower-case both sides.
        max_source_tokens: Leave out pairs with a longer source, its EOS token included, and report
            it; no limit by default.
        max_target_tokens: Leave out pairs with a longer target, its EOS token included, and report
            it; no limit by default.
        batch_size: Pairs in a batch.
        batch_tokens: As many pairs in a batch as have N tokens on their longer side, padding
            counted, instead of --batch-size; as --batch-size by default.
        num_buckets: Batch shapes at most; each is compiled once, more have less padding.
        monitor: What decides which weights are best, perplexity of the validation data, or a
            measure of greedy outputs of validation texts.
        monitor_texts: Validation texts, the first ones, whose outputs --monitor reads after every
            epoch.
        label_smoothing: Fraction of the target that is spread over the whole vocabulary; 0.1 is
            usual.
    """

    tokenizer_names: ClassVar = runs.SIDES
    training_fields: ClassVar = (
        *GuidedRecipe.training_fields,
        "monitor_texts",
        "label_smoothing",
    )
    quick_training: ClassVar = "--max-examples 256 --epochs 1 --no-xla --num-buckets 1"

    source: pathlib.Path | None = None
    target: pathlib.Path | None = None
    pairs: pathlib.Path | None = None
    format: Format | None = None
    validation_source: pathlib.Path | None = None
    validation_target: pathlib.Path | None = None
    validation_pairs: pathlib.Path | None = None
    shards: list[str] | None = None
    epoch_batches: int | None = None
    shuffle_buffer: int = 20_000
    sample_pairs: int = 200_000
    validation_fraction: OpenFraction = 0.02
    max_examples: int | None = None
    invalid_lines: Literal["skip", "refuse"] = "skip"
    tokenizer: TokenizerKind | None = None
    source_tokenizer: TokenizerKind | None = None
    target_tokenizer: TokenizerKind | None = None
    joint_vocabulary: bool = False
    vocabulary_size: VocabularySize | None = None
    min_frequency: int = 1
    lowercase: bool = False
    max_source_tokens: int | None = None
    max_target_tokens: int | None = None
    batch_tokens: int | None = None
    num_buckets: int = 6
    clip_norm: NonNegativeFloat = 1.0
    monitor: Literal["perplexity", "exact_match", "bleu", "wer"] = "perplexity"
    monitor_texts: int = 500
    label_smoothing: Fraction = 0.0

    #: The tokens of the longest text of each side of the training data, EOS tokens included.
    lengths: dict[str, int] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _shards: Shards | None = dataclasses.field(default=None, init=False, repr=False)
    _stream: ShardBatches | None = dataclasses.field(default=None, init=False, repr=False)

    def check(self) -> None:
        super().check()
        files, validation_files = self._get_files()
        if self.shards:
            self._check_shards(files, validation_files)
        elif validation_files and not files:
            raise UsageError("Validation files were given without training files. Name both.")
        self._check_used(bool(files) and not validation_files)
        if self.format and not (self.pairs or self.validation_pairs or self.shards):
            raise UsageError(
                "--format is for files of pairs. Leave it out, or name such files with --pairs. "
                f"Received: --format {self.format}"
            )
        kinds = self._get_kinds()
        if SUBWORD_KINDS.keys() >= set(kinds) and self.min_frequency > 1:
            named = " and ".join(sorted({SUBWORD_KINDS[kind] for kind in kinds}))
            raise UsageError(
                f"--min-frequency is for characters and words; {named} has --vocabulary-size. "
                "Leave it out, or choose --tokenizer words."
            )
        self.check_guided_alignment(kinds, bool(files) and files.form != "targets")
        if self.joint_vocabulary and kinds[0] != kinds[1]:
            raise UsageError(
                "--joint-vocabulary needs the same tokens on both sides. Received: "
                f"{kinds[0]} of the source, {kinds[1]} of the target"
            )
        if self.model_options.get("share_embeddings") and not self.joint_vocabulary:
            raise UsageError(
                "--share-embeddings needs one vocabulary of both sides. Add --joint-vocabulary, or "
                "--no-share-embeddings."
            )
        self._check_bidirectional()
        if self.model_options.get("copied_words"):
            self._check_copied_words(kinds)

    def _check_used(self, is_held_out):
        """Raises if an option of data was changed that are not there."""
        for option in options_of(type(self)):
            value = getattr(self, option.name)
            if value == option.default:
                continue
            if option.name in OF_SHARDS and not self.shards:
                raise UsageError(
                    f"{option.flag} is for --shards. Leave it out, or name shards. "
                    f"Received: {option.flag} {value}"
                )
            if option.name == "validation_fraction" and not is_held_out:
                raise UsageError(
                    f"{option.flag} is for files of yours that come without validation files. "
                    f"Leave it out. Received: {option.flag} {value}"
                )

    def _check_bidirectional(self):
        options = self.model_options
        if options.get("bidirectional") and (options["units"] % 2 or options["reverse"]):
            reverse = " --reverse" if options["reverse"] else ""
            raise UsageError(
                "--bidirectional reads the source from both ends, each with half of --units: name "
                "even --units, and --no-reverse. Received: --bidirectional "
                f"--units {options['units']}{reverse}"
            )

    def _check_copied_words(self, kinds):
        if not self.joint_vocabulary or kinds[0] != "words" or self.shards:
            raise UsageError(
                "--copied-words needs words as tokens, one vocabulary of both sides, and data in "
                "memory: subwords spell unknown words anyway. Add --tokenizer words and "
                "--joint-vocabulary, and name files instead of --shards."
            )
        if self.guided_alignment:
            raise UsageError(
                "--copied-words learns where to copy from by itself. Leave out one of it and "
                "--guided-alignment."
            )
        if self.model_options.get("scheduled_sampling"):
            raise UsageError(
                "--copied-words is trained on true tokens. Leave out one of it and "
                "--scheduled-sampling."
            )

    def read_data(self) -> dict[str, list[tuple[str, str]]]:
        files, validation_files = self._get_files()

        def read(part, of_part):
            corpus = of_part.read(part, self.invalid_lines, self.max_examples)
            if of_part is files:
                self.read_links(files, corpus)
            return corpus.pairs

        if self.shards:
            self._shards = Shards(self.shards, files.form, self.invalid_lines)
            training, report = self._shards.sample(self.sample_pairs)
            if report.left_out:
                print(f"sample: {report}")
        else:
            training = read("train", files)
        if files and not validation_files:
            training, validation = hold_out(training, self.validation_fraction)
        else:
            validation = read("validation", validation_files)
        return {"training": training, "validation": validation}

    def get_symbols(self) -> Sequence[str]:
        """Returns what is always one token of a source."""
        return () if self.has_own_data else dates.locale_symbols()

    def make_tokenizers(self, training: list[tuple[str, str]]) -> dict[str, Tokenizer]:
        symbols = self.get_symbols()
        kinds, texts = self._get_kinds(), list(zip(*training, strict=True))
        if self.joint_vocabulary:
            joint = self._make_tokenizer(kinds[0], itertools.chain(*texts), symbols)
            return dict.fromkeys(runs.SIDES, joint)
        made = map(self._make_tokenizer, kinds, texts, (symbols, ()))
        return dict(zip(runs.SIDES, made, strict=True))

    def make_batches(self, name: str, part: list[tuple[str, str]]) -> Batches:
        is_training = name == "training"
        batches = self.choose_batches(part)(
            part,
            *self.tokenizers.values(),
            batch_size=self.batch_size,
            batch_tokens=self.batch_tokens,
            max_shapes=self.num_buckets if is_training else min(3, self.num_buckets),
            seed=self.seed if is_training else 0,
            max_source_length=self.max_source_tokens,
            max_target_length=self.max_target_tokens,
            num_copied_words=self.model_options.get("copied_words") or 0,
        )
        print(f"{'sample' if self.shards and is_training else name}: {batches}")
        if batches.report.left_out:
            print(f"{name}: {batches.report}")
        return batches

    def prepare_batches(self, model: keras.Model, batches: dict[str, Batches]) -> None:
        for name, part in batches.items():
            part.decoder_start_id = get_decoder_start_id(model.get_layer("decoder"))
            self._check_positions(model, name, _find_longest(part))
        self.lengths = _find_longest(batches["training"])
        if self._shards is not None:
            batches["training"] = self._stream = ShardBatches(
                self._shards,
                *self.tokenizers.values(),
                batches["training"],
                self.epoch_batches,
                self.shuffle_buffer,
                self.batch_tokens,
            )
            print(f"training: {self._stream}")

    def make_loss(self) -> keras.losses.Loss:
        return TokenCrossentropy(label_smoothing=self.label_smoothing)

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return make_token_metrics()

    def make_measures(
        self, model: keras.Model, validation: list[tuple[str, str]]
    ) -> tuple[Measure, ...]:
        if self.monitor == "perplexity":
            return ()
        corpus = Corpus(validation, list(range(len(validation))), "validation", Report())
        chosen = References.of(corpus, self.monitor == "wer", self.monitor_texts)
        sides = list(self.tokenizers.values())
        search = SearchOptions(max_length=choose_max_length(model, self.lengths["target"]))

        @functools.cache
        def make_translator(model):  # once: its graph reads the weights of the moment
            return TextTranslator(model, *sides, search)

        def measure(model):
            outputs = make_translator(model).translate_greedily(chosen.texts)
            return text_metrics.measure_outputs(self.monitor, outputs, chosen.references, sides[1])[
                self.monitor
            ]

        return (Measure(self.monitor, measure),)

    def make_callbacks(self, directory: pathlib.Path) -> tuple[keras.callbacks.Callback, ...]:
        callbacks = super().make_callbacks(directory)
        if self._stream is None:
            return callbacks
        reports = {"lines": self._stream.shards.report, "tokens": self._stream.report}

        def report(epoch, logs):
            for name, part in reports.items():
                if part.left_out:
                    print(f"shards, {name} read until epoch {epoch + 1}: {part}")

        return (*callbacks, keras.callbacks.LambdaCallback(on_epoch_end=report))

    def describe(self, batches: dict[str, object]) -> dict[str, object]:
        return {"lengths": self.lengths}

    def save(self, directory: pathlib.Path, model: keras.Model, settings: dict) -> None:
        runs.write_run(directory, model, settings, *self.tokenizers.values(), replace=True)

    @property
    def has_own_data(self) -> bool:
        """Whether the training data are the user's files, and not the dates."""
        return bool(self.source or self.pairs or self.shards)

    def _get_files(self):
        """The training and validation files."""
        names = (self.source, self.target, self.pairs)
        validation_names = (self.validation_source, self.validation_target, self.validation_pairs)
        form, other = (  # only a file of pairs has one
            None if source else self.format for source in (self.source, self.validation_source)
        )
        return (
            PairFiles.choose("training", *names, form),
            PairFiles.choose("validation", *validation_names, other, prefix="validation-"),
        )

    def _get_kinds(self):
        """What a token of each side is."""
        default = self.tokenizer or ("sentencepiece" if self.has_own_data else "characters")
        return [self.source_tokenizer or default, self.target_tokenizer or default]

    def _check_shards(self, files, validation_files):
        if files:
            raise UsageError(
                "The training data is either --shards or other files. Leave out --shards, or "
                f"--source, --target and --pairs. Received: --shards {' '.join(self.shards)} "
                f"{'--pairs' if files.pairs else '--source'} {files.pairs or files.source}"
            )
        if self.max_examples is not None:
            raise UsageError(
                "--max-examples is for data in memory. Leave it out, or read fewer "
                f"--epoch-batches. Received: --max-examples {self.max_examples}"
            )
        if self.epoch_batches is None or not validation_files:
            raise UsageError(
                "--shards needs --epoch-batches N, the batches in an epoch, and validation files: "
                "--validation-source and --validation-target, or --validation-pairs. Received: "
                f"epoch_batches={self.epoch_batches}, "
                f"{'validation' if validation_files else 'no validation'} files"
            )

    def _make_tokenizer(self, kind, texts, symbols):
        return tokenizers.train(
            kind,
            texts,
            vocabulary_size=self.vocabulary_size,
            min_frequency=1 if kind in SUBWORD_KINDS else self.min_frequency,
            lowercase=self.lowercase,
            symbols=symbols,
        )

    def _check_positions(self, model, name, lengths):
        """Raises if a text is longer than the positions that the model learns."""
        is_option = "max_length" in self.model_options
        larger = "Give a larger --max-length, or leave" if is_option else "Leave"
        for side, limit in count_learned_positions(model).items():
            if lengths[side] > limit:
                raise ValueError(
                    f"{model.name} learns {limit} positions of the {side}, fewer than the {name} "
                    f"data needs. {larger} out what is longer with --max-{side}-tokens {limit}. "
                    f"Received: a {side} of {lengths[side]} tokens, the EOS token counted"
                )


def _find_longest(batches):
    """The tokens of the longest text of each side, EOS tokens included."""
    return {
        side: max(shape[place] for shape in batches.shapes())
        for place, side in enumerate(runs.SIDES, 1)
    }
