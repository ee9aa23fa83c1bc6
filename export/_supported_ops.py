"""The ops of an unmodified TensorFlow Serving: those of TensorFlow and of TensorFlow Text.

Exports target TensorFlow Serving 2.20. `NEWER_OPS` are the ops that TensorFlow added later, found
by comparing `tf.raw_ops` of its wheels from 2.20 to `COMPARED_VERSION`. A test fails if a newer
TensorFlow is installed, until somebody repeats the comparison.
"""

import tensorflow as tf

COMPARED_VERSION = "2.21"
NEWER_OPS = frozenset({"DecodeJxl"})
# `TF_GRAPH_DEF_VERSION` of TensorFlow 2.20, which refuses graphs that require a later one.
GRAPH_VERSION = 2288

# The ops of `tensorflow_text:ops_lib`, which TensorFlow Serving links. At v2.20.0 its BUILD file
# lists every library of the wheel; a test compares these names with the wheel.
TEXT_OPS = frozenset(
    {
        *("CaseFoldUTF8", "ConstrainedSequence", "FastBertNormalize"),
        *("FastWordpieceTokenizeWithOffsets", "FindSourceOffsets", "MaxSpanningTree"),
        *("NormalizeUTF8", "NormalizeUTF8WithOffsetsMap", "PhraseTokenize"),
        *("RegexSplitWithOffsets", "RougeL", "SentenceFragments", "SentenceFragmentsV2"),
        *("SentencepieceDetokenizeOp", "SentencepieceIdToStringOp", "SentencepieceOp"),
        *("SentencepieceStringToIdOp", "SentencepieceTokenizeOp"),
        *("SentencepieceTokenizeWithOffsetsOp", "SentencepieceVocabSizeOp"),
        *("SplitMergeTokenizeWithOffsets", "TFText>BoiseTagsToOffsets"),
        *("TFText>ByteSplitByOffsets", "TFText>ByteSplitWithOffsets"),
        *("TFText>FastSentencepieceDetokenize", "TFText>FastSentencepieceTokenize"),
        *("TFText>FastWordpieceDetokenize", "TFText>NgramsStringJoin"),
        *("TFText>OffsetsToBoiseTags", "TFText>PhraseDetokenize"),
        *("TFText>RoundRobinGenerateMasks", "TFText>RoundRobinTrim", "TFText>Utf8Binarize"),
        *("TFText>WhitespaceTokenizeWithOffsetsV2", "TokenizerFromLogits"),
        *("UnicodeScriptTokenizeWithOffsets", "WhitespaceTokenizeWithOffsets"),
        "WordpieceTokenizeWithOffsets",
    }
)
# Ops that write to a variable, table or queue, or draw random numbers from a state.
STATEFUL_PREFIXES = (
    *("Apply", "Assign", "CountUpTo", "Queue", "ResourceApply", "ResourceCountUpTo"),
    *("ResourceScatter", "ResourceSparseApply", "ResourceStridedSliceAssign", "RngReadAndSkip"),
    *("RngSkip", "SparseApply", "StatefulRandom", "StatefulStandardNormal"),
    *("StatefulTruncatedNormal", "StatefulUniform", "LookupTableImport", "LookupTableInsert"),
    "LookupTableRemove",
)
STATEFUL_OPS = frozenset(
    {
        *("Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson"),
        *("RandomPoissonV2", "RandomShuffle", "RandomStandardNormal", "RandomUniform"),
        *("RandomUniformInt", "TruncatedNormal", "NonDeterministicInts", "AnonymousSeedGenerator"),
        *("ScatterAdd", "ScatterDiv", "ScatterMax", "ScatterMin", "ScatterMul", "ScatterSub"),
        *("ScatterUpdate", "ScatterNdAdd", "ScatterNdMax", "ScatterNdMin", "ScatterNdSub"),
        *("ScatterNdUpdate", "IteratorGetNext", "IteratorGetNextSync"),
    }
)
PYTHON_OPS = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless", "StatefulPyFunc"})


def list_ops(graph_def) -> set[str]:
    """Returns the names of the ops in a graph and its functions, without calls of functions."""
    functions = {function.signature.name for function in graph_def.library.function}
    return {node.op for node in iterate_nodes(graph_def)} - functions


def iterate_nodes(graph_def):
    """Yields the nodes of a graph and of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def find_op_problems(graph_def):
    """Yields a line for every op that an unmodified TensorFlow Serving lacks or cannot run."""
    for op in sorted(list_ops(graph_def)):
        if op in PYTHON_OPS:
            yield f"op {op} calls Python, which a server does not have"
        elif op in NEWER_OPS:
            yield f"op {op} is newer than TensorFlow 2.20: a server of that version lacks it"
        elif op not in TEXT_OPS and not hasattr(tf.raw_ops, op):
            yield f"op {op} belongs neither to TensorFlow nor to TensorFlow Text: a server lacks it"
    if graph_def.versions.min_consumer > GRAPH_VERSION:
        yield (
            f"the graph requires version {graph_def.versions.min_consumer} of the graph format; "
            f"TensorFlow 2.20 has {GRAPH_VERSION}"
        )


def find_state_problems(graph):
    """Yields the signatures of a `MetaGraphDef` whose outputs depend on earlier requests."""
    functions = {f.signature.name: f.node_def for f in graph.graph_def.library.function}
    top = {node.name: node for node in graph.graph_def.node}
    for name, signature in sorted(graph.signature_def.items()):
        if name == "__saved_model_init_op":
            continue
        outputs = [info.name.split(":")[0] for info in signature.outputs.values()]
        found = {
            node.op for node in _find_ancestors(outputs, top, functions) if _is_stateful(node.op)
        }
        for op in sorted(found):
            yield (
                f"signature {name} keeps a state (op {op}): equal requests would have different "
                "outputs. Draw random numbers from a seed in the request."
            )


def _is_stateful(op):
    return op.startswith(STATEFUL_PREFIXES) or op in STATEFUL_OPS


def _find_ancestors(outputs, top, functions):
    """Yields the nodes that compute some outputs, including those inside functions."""
    pending, seen, called = list(outputs), set(), set()
    while pending:
        name = pending.pop().lstrip("^").split(":")[0]
        if name in seen or name not in top:
            continue
        seen.add(name)
        pending += top[name].input
        inside = [top[name]]
        while inside:
            node = inside.pop()
            yield node
            for function in list_called_functions(node):
                if function in functions and function not in called:
                    called.add(function)
                    inside += functions[function]


def list_called_functions(node):
    """Yields the names of the functions that a node calls."""
    for attribute in node.attr.values():
        if attribute.HasField("func"):
            yield attribute.func.name
        yield from (function.name for function in attribute.list.func)


def find_xla_names(graph_def) -> list[str]:
    """Returns the names of functions and nodes that require XLA."""
    found = {f.signature.name for f in graph_def.library.function if _must_compile(f.attr)}
    return sorted(
        found | {node.name for node in iterate_nodes(graph_def) if _must_compile(node.attr)}
    )


def _must_compile(attributes):
    return "_XlaMustCompile" in attributes and attributes["_XlaMustCompile"].b
