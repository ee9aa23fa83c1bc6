"""What a translator should answer, by the Keras model and the searches of the library alone.

Nothing of the export takes part but the tokenizers: one row after the other, eagerly, without
padding, as docs/export.md describes each signature.
"""

import dataclasses

import numpy as np
import tensorflow as tf
from served_translators import begin_alone, search_alone
from toy_export import BEAM_WIDTH, MAX_LENGTH, SOURCE_LIMIT, toy_parts

from keras_attention import search
from keras_attention.export import _model_card, runs

UNKNOWN, END = 1, 3


@dataclasses.dataclass
class Oracle:
    """Called as `oracle(signature, **inputs)`, it gives the outputs of a batch of one row.

    Attributes:
        model: The translator that was exported.
        source, target: Its tokenizers.
        source_limit: Longest source in tokens, the EOS token not counted.
        search: Dict of arguments of `beam_search`, `max_length` among them.
    """

    model: object
    source: object
    target: object
    source_limit: int
    search: dict

    def __call__(self, signature, **inputs) -> dict[str, np.ndarray]:
        row = {name: array[0] for name, array in inputs.items()}
        if signature == "ids":
            source = self._replace_unknown(row["ids"][: row["length"]])
        else:
            source = self.source.encode(tf.constant([row["text"]]))[0].numpy()[0].tolist()
        ids, begun = begin_alone(self, source)
        method = getattr(self, f"_answer_{signature}")
        rest = {name: value for name, value in row.items() if name not in ("text", "ids", "length")}
        found = method(ids, begun, **rest)
        return {name: np.asarray(value)[None] for name, value in found.items()}

    def _replace_unknown(self, ids):
        """Ids in which special and foreign ones are unknown."""
        known = range(END + 1, self.source.vocabulary_size)
        return [int(i) if i in known else UNKNOWN for i in ids]

    def _beams(self, ids, begun, **options):
        found = search_alone(ids, begun, self.search | options)
        columns = max(0, found["lengths"].max())
        return found | {"ids": found["ids"][:, :columns], "columns": columns}

    def _answer_ids(self, ids, begun):
        found = self._beams(ids, begun)
        return {"ids": found["ids"], "length": found["lengths"], "score": found["scores"]}

    def _answer_serving_default(self, ids, begun):
        found = self._beams(ids, begun)
        return {"text": self._texts(found["ids"]), "score": found["scores"]}

    def _answer_translate_with_alignment(self, ids, begun):
        found = self._beams(ids, begun)
        return {
            "text": self._texts(found["ids"]),
            "score": found["scores"],
            "tokens": self.target.ids_to_tokens(found["ids"]).numpy(),
            "length": found["lengths"],
            "alignment": found["alignments"][:, : found["columns"]],
            "source_tokens": self.source.ids_to_tokens(ids).numpy()[0],
            "source_length": np.int32(ids.shape[1]),
        }

    def _answer_search(self, ids, begun, length_penalty, max_length):
        alpha = float(np.clip(np.nan_to_num(length_penalty, nan=0.0), -5, 5))
        limit = int(np.clip(max_length, 1, self.search["max_length"]))
        options = {"length_penalty": search.GNMTLengthPenalty(alpha), "max_length": limit}
        found = self._beams(ids, begun, **options)
        return {
            "text": self._texts(found["ids"]),
            "score": found["scores"],
            "length": found["lengths"],
        }

    def _answer_greedy(self, ids, begun):
        return self._single(search.greedy_search(*begun, **self._constraints()))

    def _answer_sample(self, ids, begun, seed, temperature):
        temperature = np.clip(np.nan_to_num(temperature, nan=0.0), 0.0, 100.0)
        found = search.sample_search(
            *begun,
            seed=tf.constant([seed]),
            temperature=tf.constant([temperature], "float32"),
            **self._constraints(),
        )
        return self._single(found)

    def _answer_score(self, ids, begun, target):
        tokens = self.target.encode(tf.constant([target]))[0].numpy()[0].tolist()
        tokens = [*tokens, END][: self.search["max_length"]]
        found = search.score_sequences(*begun, tf.constant([tokens]))
        return {
            "log_prob": found["log_probs"].numpy()[0],
            "token_log_prob": found["token_log_probs"].numpy()[0],
            "length": found["lengths"].numpy()[0],
        }

    def _constraints(self):
        names = ("max_length", "constraints")
        return {name: self.search[name] for name in names if name in self.search}

    def _single(self, found):
        return {
            "text": self.target.decode(found["ids"]).numpy()[0],
            "log_prob": found["log_probs"].numpy()[0],
            "length": found["lengths"].numpy()[0],
        }

    def _texts(self, ids):
        return self.target.decode(ids).numpy()


def oracle_of_toy() -> Oracle:
    """The oracle of what `toy_export.write_toy` writes by default."""
    arguments = {"beam_width": BEAM_WIDTH, "max_length": MAX_LENGTH}
    return Oracle(*toy_parts(), SOURCE_LIMIT, arguments)


def oracle_of_run(run, version) -> Oracle:
    """The oracle of a run and the options, without penalties, that its export says it has."""
    run, options = runs.read_run(run), _model_card.read(version)["options"]
    names = ("min_length", "suppress_ids", "no_repeat_ngram_size", "repetition_penalty")
    arguments = {name: options[name] for name in ("beam_width", "max_length")}
    arguments["constraints"] = search.Constraints(**{name: options[name] for name in names})
    tokenizers = run.source_tokenizer, run.target_tokenizer
    return Oracle(run.model, *tokenizers, options["max_source_length"], arguments)
