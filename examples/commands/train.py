"""`python -m examples train`: text pairs in, a run directory out."""

import argparse
import functools
import pathlib
import time

import keras

from examples import corpora, scoring, systems
from examples.commands import arguments as shared
from examples.commands import resuming, train_options
from examples.data import dates
from examples.data.batches import Batches
from examples.memory import keep_freed_memory
from examples.training import averaging, schedules
from examples.training.loop import train
from examples.training.settings import Metric, TrainingSettings
from examples.translating import TextTranslator
from keras_attention.export import runs, tokenizers

SUMMARY = "train a system on the embedded dates, or on your own pairs"
EPILOG = """\
`python -m examples train SYSTEM --help` lists the options and shows examples.
"""
MONITORED_PAIRS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds a parser for each system; it has the system's own options."""
    parsers = parser.add_subparsers(dest="system", metavar="SYSTEM", required=True)
    for name, system in systems.SYSTEMS.items():
        add = functools.partial(parsers.add_parser, name, help=system.module.TITLE)
        train_options.make_parser(name, add)


def resumed(text_arguments: list[str], arguments: argparse.Namespace) -> argparse.Namespace:
    """Returns the arguments of a run that goes on: as it began, but for what is given now."""
    began = resuming.read_record(pathlib.Path(arguments.run)) if arguments.resume else None
    if began is None:
        return arguments
    if began["system"] != arguments.system:
        raise ValueError(
            f"The run in {arguments.run} is one of {began['system']}. Resume it as that. "
            f"Received: {arguments.system}"
        )
    parser = train_options.make_parser(arguments.system)
    known = _plain(arguments)
    parser.set_defaults(**{name: began[name] for name in known if name in began})
    told = parser.parse_args(text_arguments[text_arguments.index(arguments.system) + 1 :])
    return argparse.Namespace(**{**vars(arguments), **vars(told)})


def run(arguments: argparse.Namespace) -> None:
    """Trains and writes the run directory."""
    keep_freed_memory()
    directory = pathlib.Path(arguments.run)
    files = [shared.files_of(arguments, *part) for part in (("training",), ("dev", "dev_"))]
    if files[1] and not files[0]:
        raise shared.UsageError("Dev files were given without training files. Name both.")
    record = _claim(directory, arguments)
    if record is not None:
        over = resuming.finished_text(directory, record, _plain(arguments))
        if over:
            print(over)
            return
        if resuming.has_checkpoint(directory):
            resuming.check_arguments(directory, record, _plain(arguments))
        else:
            record = None  # it begins anew, with what is asked for now
    keras.utils.set_random_seed(arguments.seed)
    pairs = corpora.training_pairs(
        *files, arguments.dev_share, arguments.on_bad_line, arguments.max_pairs
    )
    if record is None:
        sides = _new_tokenizers(arguments, pairs[0], own_data=bool(files[0]))
        for side, tokenizer in zip(runs.SIDES, sides, strict=True):
            tokenizer.save(directory / f"{side}.tokenizer")
    else:
        sides = [tokenizers.load(directory / f"{side}.tokenizer") for side in runs.SIDES]
    parts = _batches(arguments, pairs, sides)
    digests = {name: resuming.data_digest(part.encoded) for name, part in parts.items()}
    if record is None:
        record = {**_plain(arguments), "data": digests}
    else:
        resuming.check_data(directory, record, digests)
        record = {**record, **{name: getattr(arguments, name) for name in resuming.LIMITS}}
    record.pop("finished", None)
    resuming.write_record(directory, record)
    result = _train(arguments, directory, sides, parts, pairs[1])
    if result.reason == "interrupted":
        again = f"python -m examples train {arguments.system} --run {directory} --resume"
        print(f"Interrupted. To go on: {again}")
        raise SystemExit(1)
    limits = {name: record[name] for name in resuming.LIMITS}
    finished = {"reason": result.reason, "limits": limits}
    resuming.write_record(directory, {**record, "finished": finished})


def _claim(directory, arguments):
    """Makes the run directory; returns the record of the run to resume, or None.

    Raises if another run is there, or none to resume.
    """
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file. Name a directory for the run.")
    holds = directory.is_dir() and any(directory.iterdir())
    if holds and not arguments.resume:
        raise ValueError(
            f"{directory} is not empty. Name another directory with --run, or go on with "
            "what it holds with --resume."
        )
    if arguments.resume and not holds:
        raise ValueError(f"There is no run in {directory} to resume. Leave --resume out.")
    record = resuming.read_record(directory) if arguments.resume else None
    if holds and record is None and resuming.has_checkpoint(directory):
        raise ValueError(
            f"The run in {directory} has lost its {resuming.ARGUMENTS_FILE}. Restore it from a "
            "copy, or start again in another directory."
        )
    tokenizers_only = {f"{side}.tokenizer" for side in runs.SIDES}
    if holds and record is None and not tokenizers_only & {p.name for p in directory.iterdir()}:
        raise ValueError(
            f"{directory} holds files, but no run to resume. Name the directory of a run, or "
            "start one in an empty directory without --resume."
        )
    directory.mkdir(parents=True, exist_ok=True)
    return record


def _new_tokenizers(arguments, pairs, own_data):
    """Tokenizers made from the training pairs, the source's and the target's."""
    kind = arguments.tokens or ("sentencepiece" if own_data else "characters")
    if kind == "sentencepiece" and arguments.minimum_count > 1:
        raise shared.UsageError(
            "--minimum-count is for characters and words; SentencePiece has --vocabulary-size. "
            "Leave it out, or choose --tokens words."
        )
    return [
        tokenizers.train(
            kind,
            texts,
            vocabulary_size=arguments.vocabulary_size,
            minimum_count=arguments.minimum_count,
            lowercase=arguments.lowercase,
            symbols=() if own_data or side == "target" else dates.locale_symbols(),
        )
        for side, texts in zip(runs.SIDES, zip(*pairs, strict=True), strict=True)
    ]


def _batches(arguments, pairs, sides):
    """The training and dev batches, by name; says what they are."""
    parts = {}
    for name, part, shapes in (
        ("training", pairs[0], arguments.shapes),
        ("dev", pairs[1], min(3, arguments.shapes)),
    ):
        parts[name] = Batches.from_pairs(
            part,
            *sides,
            batch_size=arguments.batch_size,
            max_shapes=shapes,
            seed=arguments.seed if name == "training" else 0,
            max_source_length=arguments.max_source_tokens,
            max_target_length=arguments.max_target_tokens,
        )
        print(f"{name}: {parts[name]}")
        if parts[name].report.left_out:
            print(f"{name}: {parts[name].report}")
    return parts


def _train(arguments, directory, sides, parts, dev_pairs):
    """Builds the model, trains it and says how it went; returns the `TrainingResult`."""
    system = systems.find(arguments.system)
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
    lengths = {
        side: max(shape[place] for shape in parts["training"].shapes())
        for place, side in enumerate(runs.SIDES, 1)
    }
    description = {
        "system": arguments.system,
        "flags": options,
        "seed": arguments.seed,
        "lengths": lengths,
        "training": _plain(arguments),
    }
    began = time.monotonic()
    result = train(
        model,
        parts["training"],
        parts["dev"],
        _settings(arguments),
        directory,
        optimizer=keras.optimizers.Adam(arguments.learning_rate),
        save=lambda best: runs.write_run(directory, best, description, *sides, replace=True),
        metrics=_metrics(arguments.monitor, sides, dev_pairs, 2 * lengths["target"]),
        average=averaging.ExponentialAverage(arguments.average) if arguments.average else None,
        plateau=schedules.ReduceOnPlateau() if arguments.schedule == "plateau" else None,
        resume=arguments.resume,
    )
    if result.reason != "interrupted":
        minutes = (time.monotonic() - began) / 60
        print(
            f"Done in {minutes:.1f} minutes ({result.reason}): best dev {arguments.monitor} "
            f"{result.best:.4f} in epoch {result.best_epoch}. The run is in {directory}."
        )
    return result


def _metrics(name, sides, pairs, max_length):
    """What --monitor asks to measure beside the loss, on greedy outputs of dev pairs."""
    if name == "loss":
        return ()
    texts, references = map(list, zip(*pairs[:MONITORED_PAIRS], strict=True))
    references = scoring.as_read(sides[1], references)
    translators = {}

    def measure(model):
        if not translators:  # made once: its graph reads the weights of the moment
            translators[name] = TextTranslator(model, *sides, max_length=max_length)
        outputs = translators[name].greedy(texts)
        if name == "exact_match":
            return scoring.exact_match(outputs, references)
        return scoring.corpus_bleu(outputs, references, scoring.bleu_tokenizer(sides[1].kind))[0]

    return (Metric(name, measure),)


def _settings(arguments):
    return TrainingSettings(
        epochs=arguments.epochs,
        minutes=arguments.minutes,
        patience=arguments.patience,
        monitor=arguments.monitor,
        smoothing=arguments.label_smoothing,
        clip_norm=arguments.clip_norm,
        jit_compile=not arguments.no_jit,
        checkpoint_seconds=arguments.checkpoint_seconds,
        tensorboard=arguments.tensorboard,
    )


def _plain(arguments):
    """The arguments as JSON can hold them, those of this call left out."""
    left_out = ("command", "resume", "run")
    return {k: v for k, v in vars(arguments).items() if k not in left_out}
