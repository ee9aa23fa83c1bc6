"""Speed of decoding: our Transformer beside CTranslate2, our RNNsearch beside PyTorch.

    python -m benchmarks decode
    python -m benchmarks decode --beams 4 --repeats 21 --json decode.json
    python -m benchmarks decode --model rnnsearch

A call translates a batch of source ids, encoder included, into `--length` tokens a hypothesis:
the EOS token is forbidden until then, so that every side does the same work. Weights are random;
tests hold that both sides give the same hypotheses and scores. Ours is the encoder and the searches
of `keras_attention.search` in one graph, as the export makes it: under XLA, there with products
in bfloat16 too, once more in two parts side by side (`XLABuckets`), as a plain graph, and as a
plain graph under the policy `mixed_bfloat16`; with `--sides eager` also without any graph.
CTranslate2, which has no RNNsearch, runs in float32 and in int8; the naive loop is the least that a
search with our Transformer can be (`benchmarks/naive_search.py`); PyTorch runs
`benchmarks.torch_models` in eager mode. A token is a token of the output, of the best hypothesis.
"""

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import BenchmarkError, Case, measure_times
from examples.memory import keep_freed_memory

REPEATS = 15
END_ID = 3
OURS = {
    "xla": ("ours, XLA", {"jit_compile": True, "dtype": "float32"}),
    "xla-bfloat16": (
        "ours, XLA, bfloat16 products",
        {"jit_compile": True, "dtype": "float32", "precision": "bfloat16"},
    ),
    "xla-split": (
        "ours, XLA, bfloat16 products, split",
        {"jit_compile": True, "dtype": "float32", "precision": "bfloat16", "split": 2},
    ),
    "graph": ("ours, graph", {"jit_compile": False, "dtype": "float32"}),
    "bfloat16": ("ours, graph, bfloat16", {"jit_compile": False, "dtype": "bfloat16"}),
    "eager": ("ours, eager", {"eager": True, "dtype": "float32"}),
}
PEERS = {
    "naive-xla": ("naive loop, XLA", "naive", {"jit_compile": True}),
    "naive-graph": ("naive loop, graph", "naive", {"jit_compile": False}),
    "float32": ("CTranslate2, float32", "ctranslate2", {"compute_type": "float32"}),
    "int8": ("CTranslate2, int8", "ctranslate2", {"compute_type": "int8"}),
    "torch": ("PyTorch, eager", "torch", {}),
}


@dataclasses.dataclass(frozen=True)
class System:
    """A model that is measured.

    Attributes:
        title: Its name; `{layers}` and `{heads}` stand for those flags.
        build: Callable of `(width, layers, heads, vocabulary, dtype)` that returns our model.
        peers: Keys of `PEERS`; the first has the speed 1, or the first that takes part.
    """

    title: str
    build: Callable
    peers: tuple[str, ...]


def our_transformer(width, layers, heads, vocabulary, dtype):
    """Returns our Transformer; its inner width is 4 times `width`."""
    from examples.models import transformer

    sizes = {"units": width, "layers": layers, "heads": heads}
    return transformer.build(vocabulary, vocabulary, **sizes, dropout=0.0, dtype=dtype)


def our_rnnsearch(width, layers, heads, vocabulary, dtype):
    """Returns our RNNsearch of `width` units throughout; it has one layer and no heads."""
    from examples.models import rnnsearch

    sizes = {"units": width, "embedding_dim": width, "maxout_units": width}
    return rnnsearch.build(vocabulary, vocabulary, **sizes, dtype=dtype)


SYSTEMS = {
    "transformer": System(
        "Transformer of {layers} + {layers} layers, {heads} heads",
        our_transformer,
        ("float32", "int8", "naive-xla", "naive-graph"),
    ),
    "rnnsearch": System("RNNsearch", our_rnnsearch, ("torch",)),
}


def add_arguments(parser) -> None:
    """Adds this suite's sizes to its parser; the shared flags are there already."""
    parser.add_argument(
        "--model",
        dest="system",
        choices=SYSTEMS,
        default="transformer",
        help="which model (default: %(default)s)",
    )
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 32, "sources in a call"),
        ("--source-length", 20, "tokens of a source"),
        ("--length", 32, "tokens of an output"),
        ("--width", 256, "units of embeddings and layers"),
        ("--layers", 3, "layers of the Transformer's encoder and of its decoder"),
        ("--heads", 4, "heads of the Transformer"),
        ("--vocabulary", 8000, "words in each of the two vocabularies"),
    ):
        add_number(sizes, flag, default, text)
    parser.add_argument(
        "--beams",
        type=int,
        nargs="+",
        default=[1, 4],
        help="beam widths; 1 is the greedy search (default: 1 4)",
    )
    parser.add_argument(
        "--sides",
        choices=[*OURS, *PEERS],
        nargs="+",
        help="which sides take part (default: all of the system but eager)",
    )


def run(arguments, command: str, progress) -> dict:
    """Measures all sides at every beam width and returns the filled report."""
    system = SYSTEMS[arguments.system]
    sides = arguments.sides or [*(side for side in OURS if side != "eager"), *system.peers]
    strange = sorted(set(sides) & set(PEERS) - set(system.peers))
    if strange:
        raise BenchmarkError(
            f"--model {arguments.system} has the peers {', '.join(system.peers)}. "
            f"Received: --sides {' '.join(strange)}"
        )
    names = ("system", "batch", "source_length", "length", "width", "layers", "heads")
    sizes = {name: getattr(arguments, name) for name in (*names, "vocabulary")}
    settings = {**sizes, "beams": arguments.beams, "threads": arguments.threads}
    title = (
        f"Decoding, {system.title.format(**sizes)}: batch {arguments.batch}, source "
        f"{arguments.source_length}, {arguments.length} tokens, width {arguments.width}, "
        f"vocabulary {arguments.vocabulary:,}, {arguments.threads} threads, median of "
        f"{arguments.repeats} rounds"
    )
    taking_part = [one for one in system.peers if one in sides]
    peer = PEERS[(taking_part or system.peers)[0]][0]
    report = reports.new_report("decode", title, command, settings)
    report["columns"] = ["beam", "side", "a call", "quartiles", "tokens/s"]
    report["columns"] += [f"speed, {peer} = 1"]
    for beam in arguments.beams:
        results = measure_times(
            cases({**sizes, "beam": beam}, sides),
            arguments.repeats,
            threads=arguments.threads,
            warmup=arguments.warmup,
            progress=progress,
        )
        fill(report, beam, results, arguments.batch * arguments.length, peer)
    report["notes"].append("Every output has its full length: the EOS token is forbidden before.")
    return report


def cases(options: dict, sides) -> list[Case]:
    """Returns the sides in the order in which they take turns."""
    found = []
    for side in sides:
        if side in OURS:
            name, given = OURS[side]
            found.append(Case(name, "benchmarks.decode:keras_side", {**options, **given}))
        else:
            name, package, given = PEERS[side]
            factory = f"benchmarks.decode:{package}_side"
            needs = () if package == "naive" else (package,)
            case = Case(name, factory, {**options, **given}, needs=needs)
            found.append(case)
    return found


def fill(report: dict, beam: int, results: dict[str, dict], tokens: int, peer: str) -> None:
    """Writes the rows and the lines of one beam width into `report`."""
    one = results.get(peer, {}).get("median_seconds")
    for name, result in results.items():
        if "missing" in result:
            report["rows"].append({"beam": beam, "name": name, "missing": result["missing"]})
            report["lines"].append([str(beam), f"{name}: {result['missing']}"])
            continue
        median = result["median_seconds"]
        ratio = one / median if one else None
        row = {"beam": beam, "name": name, **result}
        row |= {"tokens_per_second": tokens / median, "speed_ratio": ratio}
        report["rows"].append(row)
        report["lines"].append(
            [
                str(beam),
                name,
                reports.seconds_text(median),
                reports.range_text(*result["quartile_seconds"]),
                f"{tokens / median:,.0f}",
                "-" if ratio is None else f"{ratio:.2f}",
            ]
        )


def example_model(width, layers, heads, vocabulary, dtype=None, system="transformer"):
    """Returns our model with random weights, the same on every side."""
    import keras

    keras.utils.set_random_seed(1)
    return SYSTEMS[system].build(width, layers, heads, vocabulary, dtype)


def example_sources(batch, source_length, vocabulary):
    """Returns ids `(batch, source_length)` of full sources, the EOS token last."""
    ids = np.random.default_rng(1).integers(4, vocabulary, (batch, source_length), dtype="int32")
    ids[:, -1] = END_ID
    return ids


def searcher(model, beam: int, length: int):
    """Returns `search(source_ids)`, which gives ids and log-probabilities, best first."""
    from keras import ops

    from keras_attention.decoders import get_reorder_cache, start_decoder
    from keras_attention.search import (
        BeamOptions,
        beam_search,
        greedy_search,
    )

    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    forbidden = np.where(np.arange(decoder.vocabulary_size) == END_ID, -1e9, 0).astype("float32")

    def step(ids, state, memory):
        """Without the EOS token, before the softmax: CTranslate2's rule for a minimum length."""
        logits, state, alignment = decoder.step(ids, state, memory)
        return logits + forbidden, state, alignment

    def search(ids):
        mask = ids != 0
        encoded = encoder(ids, training=False)
        memory = decoder.prepare(encoded["memory"], memory_mask=mask)
        state = start_decoder(decoder, memory, encoded.get("initial_state"), length)
        options = {"max_length": length, "return_alignments": False}
        if beam == 1:
            found = greedy_search(step, state, memory, **options)
            return ops.expand_dims(found["ids"], 1), ops.expand_dims(found["log_probs"], 1)
        options["options"] = BeamOptions(reorder_cache=get_reorder_cache(decoder))
        found = beam_search(step, state, memory, beam_width=beam, **options)
        return found["ids"], found["log_probs"]

    return search


def keras_side(
    system,
    batch,
    source_length,
    length,
    width,
    layers,
    heads,
    vocabulary,
    beam,
    jit_compile=False,
    dtype="float32",
    precision="float32",
    split=1,
    eager=False,
):
    """Returns a function that translates a batch with this project."""
    keep_freed_memory()
    import tensorflow as tf

    from keras_attention.export import XLABuckets
    from keras_attention.search import EagerSearchWarning

    policy = None if dtype == "float32" else f"mixed_{dtype}"
    model = example_model(width, layers, heads, vocabulary, policy, system)
    ids = tf.constant(example_sources(batch, source_length, vocabulary))
    found = searcher(model, beam, length)
    if eager:
        warnings.simplefilter("ignore", EagerSearchWarning)
        return lambda: float(found(ids)[1][0, 0])

    def search(ids, length):
        return dict(zip(("ids", "log_probs"), found(ids), strict=True))

    if jit_compile:
        xla_buckets = XLABuckets((batch,), (source_length,), precision, split)
        search = xla_buckets.compile_in_buckets(search)
    else:
        # As a server has it: one graph for any batch and any length, another for one example.
        rows = 1 if batch == 1 else None
        specs = tf.TensorSpec([rows, None], tf.int32), tf.TensorSpec([rows], tf.int32)
        search = tf.function(search, specs, autograph=False)
    lengths = tf.fill([batch], source_length)
    return lambda: float(search(ids, lengths)["log_probs"][0, 0])


def naive_side(
    system, batch, source_length, length, width, layers, heads, vocabulary, beam, jit_compile
):
    """Returns a function that translates a batch with a plain loop around our weights."""
    keep_freed_memory()
    import tensorflow as tf

    from benchmarks.naive_search import make_search

    model = example_model(width, layers, heads, vocabulary, system=system)
    ids = tf.constant(example_sources(batch, source_length, vocabulary))
    search = make_search(model, batch, beam, length)
    search = tf.function(search, autograph=False, jit_compile=jit_compile or None)
    return lambda: float(search(ids)[0, 0])


def ctranslate2_side(
    system, batch, source_length, length, width, layers, heads, vocabulary, beam, compute_type
):
    """Returns a function that translates a batch with CTranslate2."""
    import os
    import tempfile
    from pathlib import Path

    import ctranslate2

    from benchmarks import ctranslate2_models

    model = example_model(width, layers, heads, vocabulary, system=system)
    with tempfile.TemporaryDirectory() as folder:
        ctranslate2_models.write(model, Path(folder) / "model")
        translator = ctranslate2.Translator(
            str(Path(folder) / "model"),
            compute_type=compute_type,
            inter_threads=1,
            intra_threads=int(os.environ["OMP_NUM_THREADS"]),
        )
    del model
    names = ctranslate2_models.tokens(vocabulary)
    sources = [
        [names[token] for token in row] for row in example_sources(batch, source_length, vocabulary)
    ]

    def work():
        found = translator.translate_batch(
            sources,
            beam_size=beam,
            length_penalty=0,
            max_decoding_length=length,
            min_decoding_length=length,
            return_scores=True,
        )
        return float(found[0].scores[0])

    return work


def torch_side(system, batch, source_length, length, width, layers, heads, vocabulary, beam):
    """Returns a function that translates a batch with PyTorch, RNNsearch alone."""
    import os

    import torch

    from benchmarks.torch_models.decoding import beam_search
    from benchmarks.torch_models.rnnsearch import TorchRNNsearch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    model = TorchRNNsearch(vocabulary, width).eval()
    ids = torch.from_numpy(example_sources(batch, source_length, vocabulary)).long()
    return lambda: float(beam_search(model, ids, beam, length)[1][0, 0])
