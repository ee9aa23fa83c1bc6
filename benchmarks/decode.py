"""Speed of decoding: our Transformer beside CTranslate2, the same weights.

    python -m benchmarks decode
    python -m benchmarks decode --beams 4 --repeats 21 --json decode.json

A call translates a batch of source ids, encoder included, into `--length` tokens a hypothesis:
the end mark is forbidden until then, so that every side does the same work. Weights are random;
a test holds that both give the same hypotheses and scores. Ours is the encoder and the searches of
`keras_attention.decoding` in one graph, as the export makes it: under XLA, as a plain graph, and as
a plain graph with products in bfloat16. CTranslate2 runs in float32 and in int8. A token is a
token of the output, of the best hypothesis.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, measure_times
from examples.memory import keep_freed_memory

REPEATS = 15
END_ID = 3
PEER = "CTranslate2, float32"
OURS = {
    "xla": ("ours, XLA", {"jit_compile": True, "dtype": "float32"}),
    "graph": ("ours, graph", {"jit_compile": False, "dtype": "float32"}),
    "bfloat16": ("ours, graph, bfloat16", {"jit_compile": False, "dtype": "bfloat16"}),
}
PEERS = {
    "float32": (PEER, {"compute_type": "float32"}),
    "int8": ("CTranslate2, int8", {"compute_type": "int8"}),
}


def add_arguments(parser) -> None:
    """Adds this suite's sizes to its parser; the shared flags are there already."""
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 32, "sources in a call"),
        ("--source-length", 20, "tokens of a source"),
        ("--length", 32, "tokens of an output"),
        ("--width", 256, "units of embeddings and layers; the inner width is 4 times that"),
        ("--layers", 3, "layers of encoder and of decoder"),
        ("--heads", 4, "heads"),
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
        default=[*OURS, *PEERS],
        help="which sides take part (default: all)",
    )


def run(arguments, command: str, progress) -> dict:
    """Measures all sides at every beam width and returns the filled report."""
    sizes = {
        name: getattr(arguments, name)
        for name in ("batch", "source_length", "length", "width", "layers", "heads", "vocabulary")
    }
    settings = {**sizes, "beams": arguments.beams, "threads": arguments.threads}
    title = (
        f"Transformer decoding: batch {arguments.batch}, source {arguments.source_length}, "
        f"{arguments.length} tokens, {arguments.layers} + {arguments.layers} layers, width "
        f"{arguments.width}, vocabulary {arguments.vocabulary:,}, {arguments.threads} threads, "
        f"median of {arguments.repeats} rounds"
    )
    report = reports.new_report("decode", title, command, settings)
    report["columns"] = ["beam", "side", "a call", "quartiles", "tokens/s"]
    report["columns"] += ["speed, CTranslate2 = 1"]
    for beam in arguments.beams:
        results = measure_times(
            cases({**sizes, "beam": beam}, arguments.sides),
            arguments.repeats,
            threads=arguments.threads,
            warmup=arguments.warmup,
            progress=progress,
        )
        fill(report, beam, results, arguments.batch * arguments.length)
    report["notes"].append("Every output has its full length: the end mark is forbidden before.")
    return report


def cases(options: dict, sides) -> list[Case]:
    """Returns the sides in the order in which they take turns."""
    found = []
    for side in sides:
        if side in OURS:
            name, given = OURS[side]
            found.append(Case(name, "benchmarks.decode:keras_side", {**options, **given}))
        else:
            name, given = PEERS[side]
            case = Case(
                name,
                "benchmarks.decode:ctranslate2_side",
                {**options, **given},
                needs=("ctranslate2",),
            )
            found.append(case)
    return found


def fill(report: dict, beam: int, results: dict[str, dict], tokens: int) -> None:
    """Writes the rows and the lines of one beam width into `report`."""
    peer = results.get(PEER, {}).get("median_seconds")
    for name, result in results.items():
        if "missing" in result:
            report["rows"].append({"beam": beam, "name": name, "missing": result["missing"]})
            report["lines"].append([str(beam), f"{name}: {result['missing']}"])
            continue
        median = result["median_seconds"]
        ratio = peer / median if peer else None
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


def example_model(width, layers, heads, vocabulary, dtype=None):
    """Returns our Transformer with random weights, the same on every side."""
    import keras

    from examples.models import transformer

    keras.utils.set_random_seed(1)
    return transformer.build(
        vocabulary,
        vocabulary,
        units=width,
        layers=layers,
        heads=heads,
        dropout=0.0,
        dtype=dtype,
    )


def example_sources(batch, source_length, vocabulary):
    """Returns ids `(batch, source_length)` of full sources, the end mark last."""
    ids = np.random.default_rng(1).integers(4, vocabulary, (batch, source_length), dtype="int32")
    ids[:, -1] = END_ID
    return ids


def searcher(model, beam: int, length: int):
    """Returns `search(source_ids)`, which gives ids and log-probabilities, best first."""
    from keras import ops

    from keras_attention.decoding import beam_search, greedy_search

    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    forbidden = np.where(np.arange(decoder.vocabulary_size) == END_ID, -1e9, 0).astype("float32")

    def step(ids, state, memory):
        """Without the end mark, before the softmax: CTranslate2's rule for a minimum length."""
        logits, state, alignment = decoder.step(ids, state, memory)
        return logits + forbidden, state, alignment

    def search(ids):
        mask = ids != 0
        memory = decoder.prepare(encoder(ids, training=False)["memory"], memory_mask=mask)
        state = decoder.start(memory, max_length=length)
        options = {"max_length": length, "return_alignments": False}
        if beam == 1:
            found = greedy_search(step, state, memory, **options)
            return ops.expand_dims(found["ids"], 1), ops.expand_dims(found["log_probs"], 1)
        options["reorder"] = decoder.reorder
        found = beam_search(step, state, memory, beam_width=beam, **options)
        return found["ids"], found["log_probs"]

    return search


def keras_side(
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
):
    """Returns a function that translates a batch with this project."""
    keep_freed_memory()
    import tensorflow as tf

    policy = None if dtype == "float32" else f"mixed_{dtype}"
    model = example_model(width, layers, heads, vocabulary, policy)
    search = tf.function(searcher(model, beam, length), jit_compile=jit_compile, autograph=False)
    ids = tf.constant(example_sources(batch, source_length, vocabulary))
    return lambda: float(search(ids)[1][0, 0])


def ctranslate2_side(
    batch, source_length, length, width, layers, heads, vocabulary, beam, compute_type="float32"
):
    """Returns a function that translates a batch with CTranslate2."""
    import os
    import tempfile
    from pathlib import Path

    import ctranslate2

    from benchmarks import ctranslate2_models

    model = example_model(width, layers, heads, vocabulary)
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
