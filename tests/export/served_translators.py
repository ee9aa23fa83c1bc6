"""Two exported translators, requests to them, and what the Keras model says itself."""

import dataclasses
import json
import subprocess
import sys
import types

import answer
import numpy as np
import tensorflow as tf
from toy_export import BEAM_WIDTH as N
from toy_export import MAX_LENGTH, SOURCE_LIMIT, toy_parts
from toy_translator import bahdanau_translator

from keras_attention import search
from keras_attention.export import __main__ as command
from keras_attention.export import runs, tokenizers

TEXTS = ["abc", "<de> klm def", "hij" * 5, "", b"\xff\xfea\x00\xe4"]
LINES = ["ein Mann läuft schnell .", "der Hund läuft .", "Tag der Männer und Hunde"] * 10
ALPHAS = np.array([0.0, 2.5, -1.5, 0.6, 1.0], "float32")
LIMITS = np.array([7, 2, 1, 5, 3], "int32")
SEEDS = np.array([5, -7, 2**31 - 1, 0, 5], "int32")
TEMPERATURES = np.array([1.0, 0.0, 3.0, 0.5, 1.0], "float32")
MANY = 31  # times TEXTS: more rows than search at a time
BANNED = 22  # a target id of the translator with penalties
OTHER_TEXTS = [LINES[0], "", "Tag 👩‍🚀"]


def describe_toy(path):
    """The shared toy, characters to words, with logits that are wider than the vocabulary."""
    model, source, target = toy_parts()
    arguments = {"beam_width": N, "max_length": MAX_LENGTH}
    return types.SimpleNamespace(
        model=model,
        source=source,
        target=target,
        path=path,
        search=arguments,
        source_limit=SOURCE_LIMIT,
    )


def export_bahdanau(base):
    """Words to subwords, from a run, by the command, with penalties."""
    source = tokenizers.train("words", LINES)
    target = tokenizers.train("sentencepiece", LINES, vocabulary_size=53, model_type="bpe")
    model = bahdanau_translator(source.vocabulary_size, target.vocabulary_size)
    settings = {"model": "bahdanau", "lengths": {"source": 11, "target": 4}}
    runs.write_run(base / "run", model, settings, source, target)
    options = ["--version", "41", "--beam-width", str(N), "--length-penalty", "0.6"]
    options += ["--coverage-penalty", "0.2", "--min-length", "3", "--no-repeat-ngram-size", "2"]
    options += ["--repetition-penalty", "1.3"]
    options += ["--suppress-tokens", "<unk>", target.ids_to_tokens([BANNED]).numpy()[0].decode()]
    assert command.main([str(base / "run"), str(base / "served"), *options]) == 0
    arguments = {
        "beam_width": N,
        "max_length": 8,  # twice the longest target of training
        "length_penalty": search.GNMTLengthPenalty(0.6),
        "constraints": search.Constraints(
            min_length=3,
            no_repeat_ngram_size=2,
            suppress_ids=(1, BANNED),
            repetition_penalty=1.3,
        ),
        "options": search.BeamOptions(coverage_penalty=search.CoveragePenalty(0.2)),
    }
    path = base / "served" / "41"
    return types.SimpleNamespace(
        model=model, source=source, target=target, path=path, search=arguments, source_limit=512
    )


def column(texts):
    """Texts as a request has them."""
    return np.array([t if isinstance(t, bytes) else t.encode() for t in texts], object)


def toy_ids(toy):
    """The ids of three texts, as a client would send them, and hostile variants."""
    ids, length = toy.source.encode(column(TEXTS[:3]))
    ids, length = ids.numpy(), length.numpy()
    junk = np.where(np.arange(ids.shape[1]) < length[:, None], ids, [[3], [-9], [10**8]])
    junk = np.concatenate([junk, np.full((3, 2), 5)], axis=1).astype("int32")
    unknown = np.array([[4, 1, 1, 1, 1, 5]] * 2, "int32")
    special = np.array([[4, 0, 3, 2, 999, 5], [4, 3, -1, 2, 0, 5]], "int32")
    return {
        "plain": (ids, length),
        "junk": (junk, length),
        "unknown": (unknown, np.array([6, 6], "int32")),
        "special": (special, np.array([6, 10**6], "int32")),
        "nothing": (unknown, np.array([-3, 0], "int32")),
        "no columns": (np.zeros((2, 0), "int32"), np.array([0, 4], "int32")),
    }


def requests_of(toy, bahdanau):
    """Name -> (path, signature, inputs)."""
    requests = {}

    def ask(name, served, signature, **inputs):
        requests[name] = (served.path, signature, inputs)

    pairs = ["one two", "", "zzz seven", "five " * 9, "six"]
    for name, served, texts in (("toy", toy, TEXTS), ("bahdanau", bahdanau, OTHER_TEXTS)):
        for signature in ("serving_default", "translate_with_alignment", "greedy"):
            ask(f"{name} {signature}", served, signature, text=column(texts))
            ask(f"{name} {signature} no rows", served, signature, text=column(texts)[:0])
            reverse = column(texts[::-1] + ["abc " * 30])
            ask(f"{name} {signature} company", served, signature, text=reverse)
        target = column(pairs if served is toy else [*LINES[:2], ""])
        ask(f"{name} score", served, "score", text=column(texts), target=target)
        ask(f"{name} score no rows", served, "score", text=target[:0], target=target[:0])
    by_row = {"length_penalty": ALPHAS, "max_length": LIMITS}
    ask("search", toy, "search", text=column(TEXTS), **by_row)
    ask("sample", toy, "sample", text=column(TEXTS), seed=SEEDS, temperature=TEMPERATURES)
    columns = {
        "serving_default": {},
        "translate_with_alignment": {},
        "greedy": {},
        "score": {"target": column(pairs)},
        "search": by_row,
        "sample": {"seed": SEEDS, "temperature": TEMPERATURES},
    }
    for signature, inputs in columns.items():
        inputs = {"text": column(TEXTS), **inputs}
        many = {key: np.concatenate([value] * MANY) for key, value in inputs.items()}
        ask(f"many {signature}", toy, signature, **many)
    for name, (ids, length) in toy_ids(toy).items():
        ask(f"ids {name}", toy, "ids", ids=ids, length=length)
    ask("ids no rows", toy, "ids", ids=np.zeros((0, 4), "int32"), length=np.zeros(0, "int32"))
    cut = column(["abcdefg hijkl", "abcdefg hijkl" + " more" * 200_000])  # a megabyte
    ask("cut", toy, "translate_with_alignment", text=cut)
    return requests


def answers_of_a_fresh_process(requests, folder):
    """Name -> dict of arrays, and the packages the process has loaded under "packages"."""
    sent = [
        [str(path), signature, {key: answer.json_of(value) for key, value in inputs.items()}]
        for path, signature, inputs in requests.values()
    ]
    (folder / "requests").write_text(json.dumps(sent))
    command = [sys.executable, answer.__file__, folder / "requests", folder / "answers"]
    subprocess.run(command, check=True, cwd=folder, timeout=300)
    answers = json.loads((folder / "answers").read_text())
    outputs = [
        {key: answer.array_of(value) for key, value in output.items()}
        for output in answers["outputs"]
    ]
    return dict(zip(requests, outputs, strict=True)) | {"packages": answers["packages"]}


def encode_alone(served, text):
    """Memory, state and step of the Keras model for one text, as a user would write it."""
    return begin_alone(served, served.source.encode(column([text]))[0].numpy()[0].tolist())


def begin_alone(served, ids):
    """The same for the ids of one text, cut and with their EOS token; these first."""
    ids = tf.constant([ids[: served.source_limit] + [3]])
    encoded = served.model.get_layer("encoder")(ids)
    decoder = served.model.get_layer("decoder")
    memory = decoder.prepare(encoded["memory"])
    state = decoder.start(memory, initial_state=encoded["initial_state"])

    def step(ids, state, memory):
        logits, state, alignment = decoder.step(ids, state, memory)
        known = np.arange(logits.shape[-1]) < served.target.vocabulary_size
        return tf.where(known, logits, -1e9), state, alignment

    return ids, (step, state, memory)


def search_alone(ids, begun, arguments):
    """The results of `beam_search` for the source of `begin_alone`, which has no padding."""
    options = arguments.get("options", search.BeamOptions())
    options = dataclasses.replace(options, memory_mask=tf.ones_like(ids, tf.bool))
    found = search.beam_search(*begun, **arguments | {"options": options})
    return {name: value.numpy()[0] for name, value in found.items()}


SIGNATURES = {
    "serving_default": (
        {"text": ("string", [-1])},
        {"text": ("string", [-1, N]), "score": ("float32", [-1, N])},
    ),
    "translate_with_alignment": (
        {"text": ("string", [-1])},
        {
            "text": ("string", [-1, N]),
            "score": ("float32", [-1, N]),
            "tokens": ("string", [-1, N, -1]),
            "length": ("int32", [-1, N]),
            "alignment": ("float32", [-1, N, -1, -1]),
            "source_tokens": ("string", [-1, -1]),
            "source_length": ("int32", [-1]),
        },
    ),
    "ids": (
        {"ids": ("int32", [-1, -1]), "length": ("int32", [-1])},
        {
            "ids": ("int32", [-1, N, -1]),
            "length": ("int32", [-1, N]),
            "score": ("float32", [-1, N]),
        },
    ),
    "greedy": (
        {"text": ("string", [-1])},
        {"text": ("string", [-1]), "log_prob": ("float32", [-1]), "length": ("int32", [-1])},
    ),
    "score": (
        {"text": ("string", [-1]), "target": ("string", [-1])},
        {
            "log_prob": ("float32", [-1]),
            "token_log_prob": ("float32", [-1, -1]),
            "length": ("int32", [-1]),
        },
    ),
    "search": (
        {
            "text": ("string", [-1]),
            "length_penalty": ("float32", [-1]),
            "max_length": ("int32", [-1]),
        },
        {"text": ("string", [-1, N]), "score": ("float32", [-1, N]), "length": ("int32", [-1, N])},
    ),
    "sample": (
        {"text": ("string", [-1]), "seed": ("int32", [-1]), "temperature": ("float32", [-1])},
        {"text": ("string", [-1]), "log_prob": ("float32", [-1]), "length": ("int32", [-1])},
    ),
}
