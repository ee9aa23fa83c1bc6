"""What the training of a translator needs: pairs, tokenizers, batches, the model."""

import itertools

import keras

from examples.commands import resuming
from examples.commands.arguments import UsageError
from examples.data import dates
from examples.data.batches import Batches
from examples.data.shards import ShardBatches, Shards
from examples.training.job import Job
from examples.training.recorder import Plateau
from examples.training.settings import Measure, TrainingSettings
from examples.training.workers import Workers
from examples.translation import corpora, error_rates, optimizing, scoring
from examples.translation.arguments import files_of
from examples.translation.translating import TextTranslator
from keras_attention import TokenCrossentropy
from keras_attention.decoders import get_decoder_start_id
from keras_attention.export import SearchOptions, runs, tokenizers
from keras_attention.export.length_limits import choose_max_length, count_learned_positions
from keras_attention.metrics import Perplexity, TokenAccuracy

#: What a run may hold before it has a record.
WRITTEN_FIRST = {f"{side}.tokenizer" for side in runs.SIDES}


def check(arguments) -> None:
    """Raises if options do not go together."""
    _check_shards(arguments, *_files(arguments))
    _kinds(arguments)
    if getattr(arguments, "share_embeddings", False) and not arguments.joint_vocabulary:
        raise UsageError(
            "--share-embeddings needs one vocabulary of both sides. Add --joint-vocabulary, or "
            "--no-share-embeddings."
        )
    optimizing.check(arguments)


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for; a new run gets its tokenizers."""
    files, shards = _files(arguments), None
    if arguments.shards:
        shards = Shards(arguments.shards, files[0].form, arguments.invalid_lines)
        sample, report = shards.sample(arguments.sample_pairs)
        if report.left_out:
            print(f"sample: {report}")
        pairs = sample, files[1].read("dev", arguments.invalid_lines).pairs
    else:
        pairs = corpora.training_pairs(
            *files, arguments.validation_fraction, arguments.invalid_lines, arguments.max_examples
        )
    if is_new and workers.is_chief:
        sides = _new_tokenizers(arguments, pairs[0])
        for side, tokenizer in zip(runs.SIDES, sides, strict=True):
            tokenizer.save(directory / f"{side}.tokenizer")
    workers.wait()
    if not (is_new and workers.is_chief):
        sides = [tokenizers.load(directory / f"{side}.tokenizer") for side in runs.SIDES]
    options = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    sizes = [tokenizer.vocabulary_size for tokenizer in sides]
    model = system.build(
        *sizes,
        seed=arguments.seed,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **options,
    )
    print(
        f"{arguments.system}: {model.count_params():,} parameters, vocabularies of {sizes[0]:,} "
        f"and {sizes[1]:,}"
    )
    parts = _batches(arguments, pairs, sides, get_decoder_start_id(model.get_layer("decoder")))
    digests = {name: resuming.data_digest(part.encoded) for name, part in parts.items()}
    if shards is not None:
        parts["training"] = _stream(arguments, shards, sides, parts["training"])
        digests["training"] += f" {shards.digest()}"
        print(f"training: {parts['training']}")
    lengths = {name: _longest(part) for name, part in parts.items()}
    _check_positions(arguments, count_learned_positions(model), lengths)
    description = {
        "system": arguments.system,
        "flags": options,
        "seed": arguments.seed,
        "lengths": lengths["training"],
        "training": resuming.plain(arguments),
    }
    return Job(
        model,
        parts["training"],
        parts["dev"],
        TrainingSettings.from_arguments(arguments),
        optimizing.make_optimizer(arguments, parts["training"].batches_per_epoch()),
        TokenCrossentropy(label_smoothing=arguments.label_smoothing),
        save=lambda best: runs.write_run(directory, best, description, *sides, replace=True),
        digests=digests,
        metrics=make_metrics(),
        measures=_measures(
            arguments, sides, pairs[1], choose_max_length(model, lengths["training"]["target"])
        ),
        callbacks=make_callbacks(arguments, directory, parts["training"] if shards else None),
    )


def make_metrics() -> list[keras.metrics.Metric]:
    """Returns what is measured of the references' tokens."""
    return [Perplexity(), TokenAccuracy(name="accuracy")]


def make_callbacks(arguments, directory, stream=None) -> tuple[keras.callbacks.Callback, ...]:
    """Returns what `--schedule` asks for beside a rate of the optimizer, and a stream's report."""
    callbacks = []
    if arguments.schedule == "plateau":
        factor, patience = arguments.plateau_factor or 0.5, arguments.plateau_patience or 2
        callbacks.append(Plateau(directory, arguments.monitor, factor, patience))
    if stream is not None:
        callbacks.append(keras.callbacks.LambdaCallback(on_epoch_end=_make_reporter(stream)))
    return tuple(callbacks)


def _make_reporter(stream):
    """Returns a function that prints what was left out of the shards so far."""

    def report(epoch, logs):
        for name, part in (("lines", stream.shards.report), ("tokens", stream.report)):
            if part.left_out:
                print(f"shards, {name} read until epoch {epoch + 1}: {part}")

    return report


def _stream(arguments, shards, sides, sample):
    """The batches of the shards, of the shapes of the sample's."""
    return ShardBatches(
        shards,
        *sides,
        sample,
        arguments.epoch_batches,
        arguments.shuffle_buffer,
        arguments.batch_tokens,
    )


def _check_shards(arguments, files, dev_files):
    """Raises if the options of shards do not go together."""
    if not arguments.shards:
        if arguments.epoch_batches is not None:
            raise UsageError(
                "--epoch-batches is for --shards. Leave it out, or name shards. "
                f"Received: --epoch-batches {arguments.epoch_batches}"
            )
        return
    if files:
        raise UsageError(
            "The training data is either --shards or other files. Leave out --shards, or --source, "
            f"--target and --pairs. Received: --shards {' '.join(arguments.shards)} "
            f"{'--pairs' if files.pairs else '--source'} {files.pairs or files.source}"
        )
    if arguments.max_examples is not None:
        raise UsageError(
            "--max-examples is for data in memory. Leave it out, or read fewer --epoch-batches. "
            f"Received: --max-examples {arguments.max_examples}"
        )
    if arguments.epoch_batches is None or not dev_files:
        raise UsageError(
            "--shards needs --epoch-batches N, the batches in an epoch, and dev files: "
            "--dev-source and --dev-target, or --dev-pairs. Received: "
            f"epoch_batches={arguments.epoch_batches}, {'dev' if dev_files else 'no dev'} files"
        )


def _files(arguments):
    """The training and dev files."""
    files = [files_of(arguments, *part) for part in (("training",), ("dev", "dev_"))]
    if files[1] and not (files[0] or arguments.shards):
        raise UsageError("Dev files were given without training files. Name both.")
    return files


def _kinds(arguments):
    """What a token of each side is."""
    own_data = arguments.source or arguments.pairs or arguments.shards
    default = arguments.tokenizer or ("sentencepiece" if own_data else "characters")
    kinds = [arguments.source_tokenizer or default, arguments.target_tokenizer or default]
    if tokenizers.SUBWORD_KINDS.keys() >= set(kinds) and arguments.min_frequency > 1:
        named = " and ".join(sorted({tokenizers.SUBWORD_KINDS[kind] for kind in kinds}))
        raise UsageError(
            f"--min-frequency is for characters and words; {named} has --vocabulary-size. "
            "Leave it out, or choose --tokenizer words."
        )
    if arguments.joint_vocabulary and kinds[0] != kinds[1]:
        raise UsageError(
            "--joint-vocabulary needs the same tokens on both sides. Received: "
            f"{kinds[0]} of the source, {kinds[1]} of the target"
        )
    return kinds


def _new_tokenizers(arguments, pairs):
    """Tokenizers made from the training pairs, the source's and the target's."""
    own_data = arguments.source or arguments.pairs or arguments.shards
    symbols = () if own_data else dates.locale_symbols()
    kinds, texts = _kinds(arguments), list(zip(*pairs, strict=True))
    if arguments.joint_vocabulary:
        joint = _tokenizer(arguments, kinds[0], itertools.chain(*texts), symbols)
        return [joint, joint]
    return [
        _tokenizer(arguments, kind, side, of_side)
        for kind, side, of_side in zip(kinds, texts, (symbols, ()), strict=True)
    ]


def _tokenizer(arguments, kind, texts, symbols):
    return tokenizers.train(
        kind,
        texts,
        vocabulary_size=arguments.vocabulary_size,
        min_frequency=1 if kind in tokenizers.SUBWORD_KINDS else arguments.min_frequency,
        lowercase=arguments.lowercase,
        symbols=symbols,
    )


def _batches(arguments, pairs, sides, first):
    """The training and dev batches, by name; says what they are."""
    parts = {}
    for name, part, shapes in (
        ("training", pairs[0], arguments.num_buckets),
        ("dev", pairs[1], min(3, arguments.num_buckets)),
    ):
        parts[name] = Batches.from_pairs(
            part,
            *sides,
            batch_size=arguments.batch_size,
            batch_tokens=arguments.batch_tokens,
            max_shapes=shapes,
            seed=arguments.seed if name == "training" else 0,
            decoder_start_id=first,
            max_source_length=arguments.max_source_tokens,
            max_target_length=arguments.max_target_tokens,
        )
        print(f"{'sample' if arguments.shards and name == 'training' else name}: {parts[name]}")
        if parts[name].report.left_out:
            print(f"{name}: {parts[name].report}")
    return parts


def _longest(batches):
    """The tokens of the longest row of each side, end marks counted."""
    return {
        side: max(shape[place] for shape in batches.shapes())
        for place, side in enumerate(runs.SIDES, 1)
    }


def _check_positions(arguments, positions, lengths):
    """Raises if a row is longer than the positions that the model learns."""
    larger = "Give a larger --max-length, or leave" if hasattr(arguments, "max_length") else "Leave"
    for name, longest in lengths.items():
        for side, limit in positions.items():
            if longest[side] > limit:
                raise ValueError(
                    f"{arguments.system} learns {limit} positions of the {side}, fewer than the "
                    f"{name} data needs. {larger} out what is longer with --max-{side}-tokens "
                    f"{limit}. Received: a {side} of {longest[side]} tokens, the end mark counted"
                )


def _measures(arguments, sides, pairs, max_length):
    """What --monitor asks to measure beside the loss, on greedy outputs of dev texts."""
    name = arguments.monitor
    if name == "perplexity":
        return ()
    several = scoring.grouped(pairs) if name == "wer" else zip(*pairs, strict=True)
    texts, references = (list(side)[: arguments.monitor_texts] for side in several)
    references = scoring.as_read(sides[1], references)
    translators = {}

    def measure(model):
        if not translators:  # made once: its graph reads the weights of the moment
            search = SearchOptions(max_length=max_length)
            translators[name] = TextTranslator(model, *sides, search)
        outputs = translators[name].greedy(texts)
        if name == "exact_match":
            return scoring.exact_match(outputs, references)
        if name == "wer":
            return error_rates.word_error_rate(outputs, references)
        return scoring.corpus_bleu(outputs, references, scoring.bleu_tokenizer(sides[1].kind))[0]

    return (Measure(name, measure),)
