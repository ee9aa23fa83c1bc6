"""Translators: pairs of texts in, a text for a text out."""

import dataclasses
import functools
import itertools
import pathlib
import typing
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import keras

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.commands.options import (
    Directory,
    FlagGroup,
    Fraction,
    NonNegativeFloat,
    OpenFraction,
    Positional,
    VocabularySize,
)
from examples.data import dates
from examples.data.batches import Batches
from examples.data.pair_files import PairFiles, References, hold_out
from examples.data.parallel import FORMATS, Corpus
from examples.data.report import Report
from examples.data.shards import ShardBatches, Shards
from examples.recipes import text_metrics
from examples.recipes.fused_search import add_fused_search_arguments, make_fused_search_options
from examples.recipes.guided_alignment import (
    AlignmentForm,
    GuidedRecipe,
    append_links,
    check_alignment,
)
from examples.recipes.learned_positions import report_cut_sources
from examples.recipes.predicted_positions import load_aligned_by
from examples.recipes.reference_metrics import make_token_metrics, measure_references
from examples.recipes.translator import Compilation, ServedTranslator, TextTranslator
from examples.training.settings import Measure
from keras_attention import TokenCrossentropy, plotting
from keras_attention.decoders import get_decoder_start_id
from keras_attention.export import SearchOptions, runs, tokenizers
from keras_attention.export import Translation as TranslatedText
from keras_attention.export.length_limits import choose_max_length, count_learned_positions
from keras_attention.export.tokenizers import SUBWORD_KINDS, TOKENIZER_CLASSES, Tokenizer

TokenizerKind = Literal[tuple(TOKENIZER_CLASSES)]
Format = Literal[tuple(FORMATS)]
Search = typing.Annotated[
    SearchOptions,
    FlagGroup(
        functools.partial(add_fused_search_arguments, for_export=False),
        make_fused_search_options,
    ),
]
ExportedSearch = typing.Annotated[
    SearchOptions, FlagGroup(add_fused_search_arguments, make_fused_search_options)
]
MOST_IN_ONE_FIGURE = 16


@dataclasses.dataclass(kw_only=True)
class Translation(GuidedRecipe):
    """Learns to write the target of a source; without data, dates as ISO 8601.

    examples:
      the embedded dates, a small model, in some minutes:
        python -m examples train {0} --run runs/dates --units 128
      a quick look, on a few of them:
        python -m examples train {0} --run runs/try --units 32 --max-examples 2000 --epochs 2
      your own sentence pairs, in SentencePiece subwords:
        python -m examples train {0} --run runs/mine --source train.de --target train.en \\
            --validation-source validation.de --validation-target validation.en --dropout 0.3 \\
            --max-minutes 60
      the same in words, with attention that follows the alignment of a word aligner:
        python -m examples train {0} --run runs/guided --source train.de --target train.en \\
            --tokenizer words --guided-alignment train.links
      pairs in many files, more than fit into memory:
        python -m examples train {0} --run runs/large --shards 'data/*.tsv.gz' \\
            --epoch-batches 10000 --validation-pairs validation.tsv
      go on after an interruption, or train longer:
        python -m examples train {0} --run runs/mine --resume
        python -m examples train {0} --run runs/mine --resume --max-minutes 120

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
        max_source_tokens: Leave out pairs with a longer source, and report it; no limit by default.
        max_target_tokens: Leave out pairs with a longer target, and report it; no limit by default.
        batch_size: Pairs in a batch.
        batch_tokens: As many pairs in a batch as have N tokens on their longer side, padding
            counted, instead of --batch-size; as --batch-size by default.
        num_buckets: Batch shapes at most; each is compiled once, more have less padding.
        monitor: What decides which weights are best, perplexity of the validation data, or a
            measure of greedy outputs of validation texts.
        monitor_texts: Validation texts, the first ones, whose outputs --monitor reads after every
            epoch.
        label_smoothing: Fraction of the target given to all other tokens; 0.1 is usual.
    """

    tokenizer_names: ClassVar = runs.SIDES
    training_fields: ClassVar = (
        *GuidedRecipe.training_fields,
        "monitor_texts",
        "label_smoothing",
    )
    quick_training: ClassVar = "--max-examples 256 --epochs 1 --no-xla --num-buckets 1"
    quick_evaluation: ClassVar = "--max-examples 32 --beam-width 1 --max-length 12"
    float_format: ClassVar = ".4f"

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

    # Training.

    def check(self) -> None:
        super().check()
        files, validation_files = self._get_files()
        if self.shards:
            self._check_shards(files, validation_files)
        elif self.epoch_batches is not None:
            raise UsageError(
                "--epoch-batches is for --shards. Leave it out, or name shards. "
                f"Received: --epoch-batches {self.epoch_batches}"
            )
        elif validation_files and not files:
            raise UsageError("Validation files were given without training files. Name both.")
        kinds = self._get_kinds()
        if SUBWORD_KINDS.keys() >= set(kinds) and self.min_frequency > 1:
            named = " and ".join(sorted({SUBWORD_KINDS[kind] for kind in kinds}))
            raise UsageError(
                f"--min-frequency is for characters and words; {named} has --vocabulary-size. "
                "Leave it out, or choose --tokenizer words."
            )
        self.check_guided_alignment(kinds, bool(files) and self.format != "targets")
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

        if self.model_options.get("copied_words"):
            self._check_copied_words(kinds)

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

    # A run.

    @property
    def has_own_data(self) -> bool:
        """Whether the training data are the user's files, and not the dates."""
        return bool(self.source or self.pairs or self.shards)

    def make_translator(self, search: SearchOptions | None = None) -> TextTranslator:
        """Returns the translator of a run, with the default search if none is given."""
        if search is None:
            longest = (self.run.settings.get("lengths") or {}).get("target")
            search = SearchOptions(max_length=choose_max_length(self.model, longest))
        return TextTranslator(self.model, *self.tokenizers.values(), search)

    def evaluate(
        self,
        *,
        source: pathlib.Path | None = None,
        target: pathlib.Path | None = None,
        pairs: pathlib.Path | None = None,
        format: Format | None = None,
        invalid_lines: Literal["refuse", "skip"] = "refuse",
        max_examples: int | None = None,
        measure: Literal["bleu", "wer", "exact_match"] | None = None,
        bleu_tokenize: Literal["none", "13a", "intl", "char", "zh"] | None = None,
        aligned_by: Directory | None = None,
        output: pathlib.Path | None = None,
        alignment: AlignmentForm | None = None,
        search: Search | None = None,
    ) -> dict[str, object]:
        """Measures a run on unseen dates, or on your own test files.

        examples:
          python -m examples evaluate runs/dates
          python -m examples evaluate runs/mine --source test.de --target test.en --output out.en
          python -m examples evaluate runs/g2p --pairs test.tsv.gz --format targets

        what the numbers mean:
          perplexity, token accuracy  of the reference's tokens, each after the right ones before
          perplexity free running     the same, after the most probable tokens of the model itself
          exact match                 fraction of outputs that equal one of their references
          wer, per                    percent of words that equal no reference of theirs; edits to
                                      the nearest reference in percent of its phonemes, summed over
                                      words
          bleu, chrf                  sacrebleu's, from 0 to 100; its signature says how
          position distance           from where local attention predicts to the largest weight
          position within one         fraction of tokens for which that is at most one position
          year attended               dates: fraction whose year is written attending to the
                                      written year

        Args:
            source: Source side of the test data, plain or .gz; by default unseen dates, for a run
                on dates.
            target: Target side, line by line; by default as --source.
            pairs: A file of pairs, instead of both; by default as --source.
            format: What a line of pairs is; by default that of the training.
            invalid_lines: What to do with empty, overlong or undecodable lines of the files; skip
                measures without them, and --output has an empty line in the place of each.
            max_examples: Take only the first N pairs; all by default.
            measure: What is measured of the outputs, exact match in any case; wer has per with it
                and joins the lines of one source; by default wer from characters to words,
                exact_match for --format scan, else bleu.
            bleu_tokenize: Tokenizer of sacrebleu; by default none for a run on words, whose texts
                are tokenized, else 13a.
            aligned_by: For attention that predicts positions, the run, on the same tokens, whose
                alignment they are compared with; the run itself by default.
            output: Write the outputs, one for each line of the file, or for each source where its
                lines are joined; by default they are not written.
            alignment: Write behind each output ` ||| ` and its links to source words, as in
                translate; none by default.
            search: The search.

        Returns:
            The numbers.
        """
        files = PairFiles.choose("test", source, target, pairs, format, self.format or "tsv")
        if files:
            measure = measure or self._choose_measure(files.form)
            if bleu_tokenize and measure != "bleu":
                raise UsageError(
                    f"--bleu-tokenize is for BLEU, and {measure.replace('_', ' ')} is measured "
                    "here. Leave it out, or add --measure bleu."
                )
        else:
            given = {"measure": measure, "bleu_tokenize": bleu_tokenize, "format": format}
            self._check_dates({name for name, value in given.items() if value})
        check_alignment(alignment, self.has_attention, self.tokenizers)
        if alignment and output is None:
            raise UsageError("--alignment is for --output. Leave it out, or name a file.")
        output = shared.check_writable(output)
        is_joined = bool(files) and (measure == "wer" or files.form == "targets")
        corpus = files.read("test", invalid_lines, None if is_joined else max_examples)
        test = References.of(corpus, is_joined, max_examples)
        numbers = {"pairs": len(test.texts), "beam": (search or SearchOptions()).beam_width}
        sides, aligned_by = [*self.tokenizers.values()], load_aligned_by(self.run, aligned_by)
        numbers |= measure_references(self.model, sides, test.pairs, aligned_by)
        report_cut_sources(self.run, test.texts, test.names)
        translator = self.make_translator(search)
        is_aligned = alignment or not files
        found = (translator.align if is_aligned else translator.translate)(test.texts)
        outputs = ["".join(one.texts[:1]) for one in found]
        numbers |= text_metrics.measure_outputs(
            measure or "exact_match", outputs, test.references, sides[1], bleu_tokenize
        )
        if not files and self.has_attention:
            fraction, count = text_metrics.measure_year_attention(found, test.texts)
            numbers |= {"year_attended": fraction, "years_in_digits": count}
        if output is not None:
            if alignment:
                outputs = [append_links(one, alignment) for one in found]
            if corpus.report.left_out:
                is_whole = max_examples is None or len(test.lines) < max_examples
                outputs = test.place(outputs, files.count_lines() if is_whole else test.lines[-1])
            text = "".join(f"{line}\n" for line in outputs)
            output.write_text(text, encoding="utf-8", newline="\n")
        return numbers

    def translate(
        self,
        *,
        texts: Positional = (),
        alignment: AlignmentForm | None = None,
        search: Search | None = None,
    ) -> list[TranslatedText]:
        """Translates texts, or standard input line by line.

        examples:
          python -m examples translate runs/dates "3. Mai 1979" "14 juillet 1989"
          python -m examples translate runs/mine --beam-width 8 < test.de > out.en
          python -m examples translate runs/mine --all "ein hund schläft ."
          python -m examples translate runs/mine --alignment hard "ein hund schläft ."
          python -m examples translate runs/mine --language-model runs/english < test.de

        A line of output for a line of input; an empty one for an empty one. Lines end with a line
        feed, with or without a carriage return before it.

        Args:
            texts: Texts; standard input by default.
            alignment: Write behind each output ` ||| ` and its links to source words, such as
                0-0 1-2: hard links each word of the output to where it attends most, a threshold
                to all words with at least this weight; none by default.
            search: The search.

        Returns:
            The outputs of each text and their scores, with an alignment if links are written.
        """
        check_alignment(alignment, self.has_attention, self.tokenizers)
        translator = self.make_translator(search)
        return (translator.align if alignment else translator.translate)(texts)

    def score(
        self,
        *,
        source: pathlib.Path | None = None,
        target: pathlib.Path | None = None,
        pairs: pathlib.Path | None = None,
        format: Format | None = None,
    ) -> list[list[float]]:
        """Computes log p(target | source) of given pairs.

        examples:
          python -m examples score runs/mine --pairs phrases.tsv
          python -m examples score runs/mine --source test.de --target test.en --tokens

        A line for a pair: the log-probability in nats of the target and its EOS token, not divided
        by the length. Cho et al. 2014 give such numbers to a translation system that looks up
        phrases.

        Args:
            source: Source side, one text a line, plain or .gz.
            target: Target side, line by line.
            pairs: A file of pairs, instead of both.
            format: What a line of pairs is; by default that of the training.

        Returns:
            For each pair the log-probability of each token, the EOS token last.
        """
        files = PairFiles.choose("scored", source, target, pairs, format, self.format or "tsv")
        if not files:
            raise UsageError("Name what is to be scored: --pairs, or --source and --target.")
        return self.make_translator().score(files.read_whole())

    def plot(
        self, *, texts: Positional = (), search: Search | None = None
    ) -> Iterator[tuple[str, object, str]]:
        """Draws the alignments of texts.

        examples:
          python -m examples plot runs/dates --output-dir plots
          python -m examples plot runs/mine --output-dir plots \\
              "ein hund schläft ." "zwei katzen spielen ."

        Writes alignment_1.png, alignment_2.png, ... and, of several texts, alignments.png with all
        of them. Rows are the output's tokens, columns the text's; dark is what the model attended
        to.

        Args:
            texts: Texts to draw; by default, for a run on dates, unseen dates of several scripts.
            search: The search.

        Yields:
            The name of a file, its figure, and what it shows.
        """
        empty = [str(number) for number, text in enumerate(texts, 1) if not text.strip()]
        if empty:
            raise UsageError(
                f"There is nothing to draw of an empty text. Leave it out. Received: text "
                f"{' and '.join(empty)} of {len(texts)}"
            )
        if not texts and self.has_own_data:
            raise UsageError(
                f"Name the texts to draw: {self.run.directory} was trained on your own data."
            )
        if not self.has_attention:
            raise ValueError(
                f"{self.run.directory} is a run of {self.run.settings['model']} whose decoder has "
                "no attention to draw. Draw one of a model with attention, such as rnnsearch."
            )
        texts = texts or dates.choose_shown_dates()
        report_cut_sources(self.run, texts, [f"text {n}" for n in range(1, len(texts) + 1)])
        found = self.make_translator(search).align(texts)
        examples = [(one.alignment, one.source_tokens, one.tokens) for one in found]
        outputs = [one.texts[0] for one in found]
        for number, example in enumerate(examples):
            figure = plotting.plot_alignment(*example, title=outputs[number])
            yield f"alignment_{number + 1}.png", figure, f"{texts[number]} -> {outputs[number]}"
        first = slice(MOST_IN_ONE_FIGURE)
        if len(found) > 1:
            figure = plotting.plot_alignments(examples[first], titles=outputs[first])
            is_whole = len(found) <= MOST_IN_ONE_FIGURE
            which = "all" if is_whole else f"the first {MOST_IN_ONE_FIGURE}"
            yield "alignments.png", figure, f"{which} in one"

    def export(
        self, *, search: ExportedSearch | None = None, xla: Compilation | None = None
    ) -> ServedTranslator:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/dates served          writes served/1, then served/2, ...
          python -m examples.predict served "3. Mai 1979"          answers from the newest version
          less served/1/assets.extra/model_card.md             what a client sends and gets

        The search is part of the export: --beam-width and the other options hold for every request.

        Args:
            search: The search.
            xla: The compilation.

        Returns:
            What is written.
        """
        return ServedTranslator(self.model, self.tokenizers, search or SearchOptions(), xla)

    # Parts of the above.

    def _get_files(self):
        """The training and validation files."""
        names, form = (self.source, self.target, self.pairs), self.format
        validation_names = (self.validation_source, self.validation_target, self.validation_pairs)
        return (
            PairFiles.choose("training", *names, form),
            PairFiles.choose("validation", *validation_names, form, prefix="validation-"),
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

    def _check_dates(self, given):
        """Raises if dates cannot be measured, or not by these options."""
        if self.has_own_data:
            raise UsageError(
                f"{self.run.directory} was trained on your own data. Name test files: --source and "
                "--target, or --pairs."
            )
        for name in sorted(given):
            raise UsageError(
                f"--{name.replace('_', '-')} is for files, and this run is measured on dates. "
                "Leave it out, or name files with --pairs."
            )

    def _choose_measure(self, form):
        if form == "scan":
            return "exact_match"
        kinds = [tokenizer.kind for tokenizer in self.tokenizers.values()]
        return "wer" if kinds == ["characters", "words"] else "bleu"


def _find_longest(batches):
    """The tokens of the longest text of each side, EOS tokens included."""
    return {
        side: max(shape[place] for shape in batches.shapes())
        for place, side in enumerate(runs.SIDES, 1)
    }
