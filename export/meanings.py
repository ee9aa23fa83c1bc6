"""What the signatures of a translator and their tensors mean, for the model card.

B is the batch, N the beam width, S and T the longest source and output of the batch in tokens,
end marks included.
"""

TEXT = "source texts, UTF-8"
RANKED = "translations, best first; an empty text where fewer exist"
SCORE = "log-probability after the penalties; -1e9 where there is no translation"
LENGTH = "tokens, the end mark counted; -1 where there is no translation"
OWN_LENGTH = "tokens, the end mark counted"
LOG_PROB = "log-probability, without penalties"

TRANSLATOR = {
    "serving_default": {
        "meaning": "The N best translations of every text.",
        "inputs": {"text": TEXT},
        "outputs": {"text": RANKED, "score": SCORE},
    },
    "translate_with_alignment": {
        "meaning": "The N best translations, and where each of their tokens looked.",
        "inputs": {"text": TEXT},
        "outputs": {
            "text": RANKED,
            "score": SCORE,
            "tokens": 'tokens of the translations, the end mark `</s>` included, padded with ""',
            "length": LENGTH,
            "alignment": "weights between output and source tokens; rows sum to 1, 0 in padding",
            "source_tokens": 'tokens that were read, the end mark included, padded with ""',
            "source_length": "source tokens, the end mark counted",
        },
    },
    "ids": {
        "meaning": "The N best translations as ids, from ids of the source tokenizer.",
        "inputs": {
            "ids": "source ids without an end mark; nothing beyond `length` is read, special and "
            "foreign ids count as unknown",
            "length": "number of ids in a row",
        },
        "outputs": {"ids": "ids, 3 at the end, padded with 0", "length": LENGTH, "score": SCORE},
    },
    "greedy": {
        "meaning": "One translation, the likeliest token at every step; the fastest.",
        "inputs": {"text": TEXT},
        "outputs": {"text": "translations", "log_prob": LOG_PROB, "length": OWN_LENGTH},
    },
    "score": {
        "meaning": "How likely the model finds a given translation.",
        "inputs": {"text": TEXT, "target": "translations to score; cut off at the longest output"},
        "outputs": {
            "log_prob": LOG_PROB,
            "token_log_prob": "log-probability of every token, the end mark last, 0 in padding",
            "length": "tokens that were scored, the end mark counted",
        },
    },
    "search": {
        "meaning": "The N best translations, ranked and limited as every row asks.",
        "inputs": {
            "text": TEXT,
            "length_penalty": "alpha: rank by log p / ((5 + length) / 6)^alpha, clipped to -5..5;"
            " 0 ranks by log p",
            "max_length": "longest output in tokens, clipped to 1 and the limit of the export",
        },
        "outputs": {"text": RANKED, "score": SCORE, "length": LENGTH},
    },
    "sample": {
        "meaning": "One translation, drawn token by token; the same seed draws the same.",
        "inputs": {
            "text": TEXT,
            "seed": "any int; equal texts with equal seeds get equal answers in any batch",
            "temperature": "0 for the likeliest token, 1 for the model's distribution; clipped "
            "to 0..100",
        },
        "outputs": {"text": "translations", "log_prob": LOG_PROB, "length": OWN_LENGTH},
    },
}
