"""`python -m examples train`: text pairs in, a run directory out."""

import argparse
import json
import pathlib
import time

import keras

from examples import corpora, systems
from examples.commands import arguments as shared
from examples.data import dates
from examples.data.batches import Batches
from examples.training import averaging, schedules
from examples.training.files import write_atomically
from examples.training.loop import train
from examples.training.settings import TrainingSettings
from keras_attention.export import runs, tokenizers

SUMMARY = "train a system on the embedded dates, or on your own pairs"
ARGUMENTS_FILE = "arguments.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `train`; each system has a parser of its own."""
    parsers = parser.add_subparsers(dest="system", metavar="SYSTEM", required=True)
    for name, system in systems.SYSTEMS.items():
        of_system = parsers.add_parser(
            name,
            help=system.module.TITLE,
            description=f"{system.module.TITLE} ({system.module.REFERENCE}). Without data it "
            "learns to write dates as ISO 8601.",
        )
        _add_options(of_system, system)


def _add_options(parser, system):
    group = parser.add_argument_group("model")
    for option_name, option in system.module.OPTIONS.items():
        option.add_to(group, option_name)
    _add_common(parser)


def _add_common(parser):
    parser.add_argument("--run", required=True, metavar="DIR", help="directory of the run")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the newest checkpoint in --run; options not given are as they were",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of everything random")
    shared.add_files(parser, "training")
    shared.add_files(parser, "dev", "dev-")
    data = parser.add_argument_group("reading the data")
    data.add_argument(
        "--dev-share",
        type=shared.share,
        default=0.02,
        help="share of the training pairs held out where no dev files are named (default: 0.02)",
    )
    data.add_argument(
        "--on-bad-line",
        choices=("skip", "refuse"),
        default="skip",
        help="what to do with empty, overlong or undecodable lines (default: skip and tell)",
    )
    data.add_argument(
        "--tokens",
        choices=("characters", "words", "sentencepiece"),
        help="what a token is (default: characters for the dates, sentencepiece for your files)",
    )
    data.add_argument("--vocabulary-size", type=shared.positive_int, help="ids at most, a side")
    data.add_argument(
        "--minimum-count", type=shared.positive_int, default=1, help="rarer tokens are unknown"
    )
    data.add_argument("--lowercase", action="store_true", help="lower-case both sides")
    data.add_argument(
        "--max-source-tokens", type=shared.positive_int, help="leave longer pairs out, and say so"
    )
    data.add_argument("--max-target-tokens", type=shared.positive_int, help="likewise")
    data.add_argument("--batch-size", type=shared.positive_int, default=64, help="pairs a batch")
    data.add_argument(
        "--shapes", type=shared.positive_int, default=6, help="batch shapes compiled at most"
    )
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=shared.positive_int, default=10, help="epochs at most")
    training.add_argument("--minutes", type=float, help="wall time the run may take, in all")
    training.add_argument(
        "--patience",
        type=shared.positive_int,
        help="stop after so many epochs without a better loss",
    )
    training.add_argument("--learning-rate", type=float, default=1e-3, help="of Adam")
    training.add_argument(
        "--schedule",
        choices=("constant", "plateau"),
        default="constant",
        help="plateau: halve the rate when the dev loss stops falling (default: constant)",
    )
    training.add_argument("--clip-norm", type=float, default=1.0, help="largest gradient norm")
    training.add_argument("--label-smoothing", type=float, default=0.0, help="0.1 is usual")
    training.add_argument("--average", type=float, metavar="DECAY", help="average the weights")
    training.add_argument(
        "--dtype",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        default="float32",
        help="dtype policy (default: float32)",
    )
    training.add_argument("--no-jit", action="store_true", help="do not compile with XLA")
    training.add_argument(
        "--checkpoint-seconds", type=float, default=60.0, help="time between checkpoints"
    )
    training.add_argument("--tensorboard", action="store_true", help="write RUN/tensorboard")


def resumed(text_arguments: list[str], arguments: argparse.Namespace) -> argparse.Namespace:
    """Returns the arguments of a run that goes on: as it began, but for what is given now."""
    path = pathlib.Path(arguments.run) / ARGUMENTS_FILE
    if not arguments.resume or not path.is_file():
        return arguments
    began = json.loads(path.read_text())
    if began["system"] != arguments.system:
        raise ValueError(
            f"The run in {arguments.run} is one of {began['system']}. Resume it as that. "
            f"Received: {arguments.system}"
        )
    parser = argparse.ArgumentParser(prog=f"python -m examples train {arguments.system}")
    _add_options(parser, systems.find(arguments.system))
    parser.set_defaults(**{k: v for k, v in began.items() if k in vars(arguments)})
    told = parser.parse_args(text_arguments[2:])
    return argparse.Namespace(**{**vars(arguments), **vars(told)})


def run(arguments: argparse.Namespace) -> None:
    """Trains and writes the run directory."""
    directory = pathlib.Path(arguments.run)
    system = systems.find(arguments.system)
    _claim(directory, arguments.resume)
    keras.utils.set_random_seed(arguments.seed)
    train_pairs, dev_pairs = corpora.training_pairs(
        shared.files_of(arguments),
        shared.files_of(arguments, "dev_"),
        arguments.dev_share,
        arguments.on_bad_line,
    )
    source_tokenizer, target_tokenizer = _tokenizers(directory, arguments, train_pairs)
    limits = {
        "max_source_length": arguments.max_source_tokens,
        "max_target_length": arguments.max_target_tokens,
    }
    batches = Batches.from_pairs(
        train_pairs,
        source_tokenizer,
        target_tokenizer,
        batch_size=arguments.batch_size,
        max_shapes=arguments.shapes,
        seed=arguments.seed,
        **limits,
    )
    dev_batches = Batches.from_pairs(
        dev_pairs,
        source_tokenizer,
        target_tokenizer,
        batch_size=arguments.batch_size,
        max_shapes=min(3, arguments.shapes),
        **limits,
    )
    for name, part in (("train", batches), ("dev", dev_batches)):
        print(f"{name}: {part}")
        if part.report.left_out:
            print(f"{name}: {part.report}")
    options = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    model = system.build(
        source_tokenizer.vocabulary_size,
        target_tokenizer.vocabulary_size,
        seed=arguments.seed,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **options,
    )
    print(
        f"{arguments.system}: {model.count_params():,} parameters, vocabularies of "
        f"{source_tokenizer.vocabulary_size:,} and {target_tokenizer.vocabulary_size:,}"
    )
    lengths = {
        "source": max(source for _, source, _ in batches.shapes()),
        "target": max(target for _, _, target in batches.shapes()),
    }
    description = {
        "system": arguments.system,
        "flags": options,
        "seed": arguments.seed,
        "lengths": lengths,
        "training": _plain(arguments),
    }

    def save(best):
        runs.write_run(
            directory, best, description, source_tokenizer, target_tokenizer, replace=True
        )

    began = time.monotonic()
    result = train(
        model,
        batches,
        dev_batches,
        _settings(arguments),
        directory,
        optimizer=keras.optimizers.Adam(arguments.learning_rate),
        save=save,
        average=averaging.ExponentialAverage(arguments.average) if arguments.average else None,
        plateau=schedules.ReduceOnPlateau() if arguments.schedule == "plateau" else None,
        resume=arguments.resume,
    )
    if result.reason == "interrupted":
        again = f"python -m examples train {arguments.system} --run {directory} --resume"
        print(f"Interrupted. To go on: {again}")
        raise SystemExit(1)
    minutes = (time.monotonic() - began) / 60
    print(
        f"Done in {minutes:.1f} minutes ({result.reason}): best dev loss {result.best:.4f} in "
        f"epoch {result.best_epoch}. The run is in {directory}."
    )


def _settings(arguments):
    return TrainingSettings(
        epochs=arguments.epochs,
        minutes=arguments.minutes,
        patience=arguments.patience,
        smoothing=arguments.label_smoothing,
        clip_norm=arguments.clip_norm,
        jit_compile=not arguments.no_jit,
        checkpoint_seconds=arguments.checkpoint_seconds,
        tensorboard=arguments.tensorboard,
    )


def _claim(directory, resume):
    """Makes the run directory, or raises if it holds another run."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file. Name a directory for the run.")
    holds = directory.is_dir() and any(directory.iterdir())
    if holds and not resume:
        raise ValueError(
            f"{directory} is not empty. Name another directory with --run, or go on with "
            "what it holds with --resume."
        )
    if resume and not holds:
        raise ValueError(f"There is no run in {directory} to resume. Leave --resume out.")
    directory.mkdir(parents=True, exist_ok=True)


def _tokenizers(directory, arguments, pairs):
    """The run's tokenizers: those it has, or new ones made from the training pairs."""
    path = directory / ARGUMENTS_FILE
    if path.is_file():
        return [tokenizers.load(directory / f"{side}.tokenizer") for side in runs.SIDES]
    own_data = bool(shared.files_of(arguments))
    kind = arguments.tokens or ("sentencepiece" if own_data else "characters")
    made = []
    for side, texts in zip(runs.SIDES, zip(*pairs, strict=True), strict=True):
        symbols = dates.locale_symbols() if not own_data and side == "source" else ()
        tokenizer = tokenizers.train(
            kind,
            texts,
            vocabulary_size=arguments.vocabulary_size,
            minimum_count=arguments.minimum_count,
            lowercase=arguments.lowercase,
            symbols=symbols,
        )
        tokenizer.save(directory / f"{side}.tokenizer")
        made.append(tokenizer)
    write_atomically(path, json.dumps(_plain(arguments), indent=2).encode())
    return made


def _plain(arguments):
    """The arguments as JSON can hold them, those of this call left out."""
    left_out = ("command", "resume", "run", "handler")
    return {k: v for k, v in vars(arguments).items() if k not in left_out}
