"""Translators: pairs of texts in, a text for a text out."""

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Iterator
from typing import ClassVar, Literal

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.commands.options import Directory, FlagGroup, Positional
from examples.data import dates
from examples.data.pair_files import PairFiles, References
from examples.recipes import text_metrics
from examples.recipes.fused_search import add_fused_search_flags, make_fused_search_options
from examples.recipes.guided_alignment import AlignmentForm, append_links, check_alignment
from examples.recipes.learned_positions import report_cut_sources
from examples.recipes.predicted_positions import load_aligned_by
from examples.recipes.reference_metrics import measure_references
from examples.recipes.translation_training import Format, TranslationTraining
from examples.recipes.translator import Compilation, ServedTranslator, TextTranslator
from keras_attention import plotting
from keras_attention.export import SearchOptions
from keras_attention.export import Translation as TranslatedText
from keras_attention.export.length_limits import choose_max_length

Search = typing.Annotated[
    SearchOptions,
    FlagGroup(
        functools.partial(add_fused_search_flags, for_export=False),
        make_fused_search_options,
    ),
]
ExportedSearch = typing.Annotated[
    SearchOptions, FlagGroup(add_fused_search_flags, make_fused_search_options)
]
MOST_IN_ONE_FIGURE = 16


@dataclasses.dataclass(kw_only=True)
class Translation(TranslationTraining):
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
    """

    has_ensembles: ClassVar = True
    quick_evaluation: ClassVar = "--max-examples 32 --beam-width 1 --max-length 12"
    float_format: ClassVar = ".4f"

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
          year attended               dates, in characters: fraction whose year is written
                                      attending to the written year

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
        are_characters = all(tokenizer.kind == "characters" for tokenizer in sides)
        if not files and self.has_attention and are_characters:
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
          python -m examples translate runs/mine --ensemble runs/other < test.de

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
