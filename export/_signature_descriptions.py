"""Descriptions of a translator's signatures and their tensors, for the model card.

B is the batch size, N the beam width. S and T are the longest source and output of the batch in
tokens, EOS included.
"""

TEXT = "source texts, UTF-8"
TRANSLATIONS = "translations, best first; empty text if there are fewer than N translations"
SCORE = (
    "log-probability after the penalties, with a language model if there is one; -1e9 if there are "
    "fewer than N translations"
)
LENGTH = "length in tokens, including EOS; -1 if there are fewer than N translations"
SINGLE_LENGTH = "length in tokens, including EOS"
LOG_PROB = "log-probability of the translator alone, without penalties"

TRANSLATOR_SIGNATURES = {
    "serving_default": {
        "description": "N-best translations of each text.",
        "inputs": {"text": TEXT},
        "outputs": {"text": TRANSLATIONS, "score": SCORE},
    },
    "translate_with_alignment": {
        "description": "N-best translations with attention weights from output to source tokens.",
        "inputs": {"text": TEXT},
        "outputs": {
            "text": TRANSLATIONS,
            "score": SCORE,
            "tokens": 'tokens of the translations, including EOS `</s>`, padded with ""',
            "length": LENGTH,
            "alignment": "weights of each output token over the source tokens, sum 1; 0 in padding",
            "source_tokens": 'source tokens that the model read, including EOS, padded with ""',
            "source_length": "number of source tokens, including EOS",
        },
    },
    "ids": {
        "description": "N-best translations as ids, from ids of the source tokenizer.",
        "inputs": {
            "ids": "source ids without EOS; ids beyond `length` are ignored, special and "
            "out-of-vocabulary ids become unknown",
            "length": "number of ids of each example",
        },
        "outputs": {
            "ids": "ids, ending with 3 (EOS), padded with 0",
            "length": LENGTH,
            "score": SCORE,
        },
    },
    "greedy": {
        "description": "Greedy decoding: one translation. The fastest signature.",
        "inputs": {"text": TEXT},
        "outputs": {"text": "translations", "log_prob": LOG_PROB, "length": SINGLE_LENGTH},
    },
    "score": {
        "description": "Log-probability of a given translation.",
        "inputs": {
            "text": TEXT,
            "target": "translations; truncated to the maximum output length",
        },
        "outputs": {
            "log_prob": LOG_PROB,
            "token_log_prob": "log-probability of each token, EOS last; 0 in padding",
            "length": "number of scored tokens, including EOS",
        },
    },
    "search": {
        "description": "N-best translations; length penalty and limit are set for each text.",
        "inputs": {
            "text": TEXT,
            "length_penalty": "alpha: rank by log p / ((5 + length) / 6)^alpha, clipped to -5..5;"
            " 0 ranks by log p",
            "max_length": "maximum output length in tokens, clipped to 1 and the export's limit",
        },
        "outputs": {"text": TRANSLATIONS, "score": SCORE, "length": LENGTH},
    },
    "sample": {
        "description": "Sampling: one translation, reproducible by its seed.",
        "inputs": {
            "text": TEXT,
            "seed": "any int; equal texts with equal seeds get equal translations in any batch",
            "temperature": "0 for the most probable token, 1 for the model's distribution; clipped "
            "to 0..100",
        },
        "outputs": {"text": "translations", "log_prob": LOG_PROB, "length": SINGLE_LENGTH},
    },
    "translate_with_phrases": {
        "description": "N-best translations that contain given phrases.",
        "inputs": {
            "text": TEXT,
            "phrases": "phrases that every translation of the text contains, one per line; "
            "empty text for none. An unknown word in a phrase is an error",
        },
        "outputs": {"text": TRANSLATIONS, "score": SCORE, "length": LENGTH},
    },
    "beam_tree": {
        "description": "The hypotheses of each step of the search of `serving_default`.",
        "inputs": {"text": TEXT},
        "outputs": {
            "tokens": 'last token of each hypothesis; "" in padding',
            "parent": "place, from 0, that the hypothesis had in the step before; 0 in padding and "
            "in the first step",
            "log_prob": "log-probability of the translator alone so far; -1e9 in padding",
            "state": "0 padding, 1 alive, 2 ended",
            "length": "number of steps",
        },
    },
}


def describe_translate_sources(joiner) -> dict[str, dict]:
    """Returns the description of `translate_sources`, which a `SourceJoiner` adds."""
    separator = joiner.separator
    description = {
        "description": f"N-best translations of several sources, which {separator} joins to the "
        "text of the other signatures.",
        "inputs": {
            spec.name: f"texts of source {number}, UTF-8; {separator} in them is removed"
            for number, spec in enumerate(joiner.inputs, 1)
        },
    }
    return {"translate_sources": TRANSLATOR_SIGNATURES["serving_default"] | description}
