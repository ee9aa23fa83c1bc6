"""The ops of a stock model server: those of TensorFlow, and TensorFlow Text's.

A server of version 2.20 is the newest that there is to plan for. `NEWER_OPS` are the ops that
TensorFlow has got since, found by comparing `tf.raw_ops` of its wheels from 2.20 up to
`COMPARED`; a test asks for a new comparison when a newer TensorFlow is installed.
"""

import tensorflow as tf

COMPARED = "2.21"
NEWER_OPS = frozenset({"DecodeJxl"})
# `TF_GRAPH_DEF_VERSION` of TensorFlow 2.20: graphs that ask for more are refused.
GRAPH_VERSION = 2288

# What `tensorflow_text:ops_lib` registers, which a stock server is linked with: read in its BUILD
# at v2.20.0, where it has every library of the wheel. A test compares this with the wheel's.
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
# What writes to a variable, a table or a queue, or draws from a state, by beginnings and by names.
STATEFUL_KINDS = (
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


def graph_ops(graph_def) -> set[str]:
    """Returns the names of the ops in a graph and its functions, calls of functions left out."""
    functions = {function.signature.name for function in graph_def.library.function}
    return {node.op for node in nodes(graph_def)} - functions


def nodes(graph_def):
    """Yields the nodes of a graph and of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def op_findings(graph_def):
    """Yields a line for every op that a stock server has not got, or would not run."""
    for op in sorted(graph_ops(graph_def)):
        if op in PYTHON_OPS:
            yield f"op {op} calls Python, which a server does not have"
        elif op in NEWER_OPS:
            yield f"op {op} is newer than TensorFlow 2.20: a server of that version lacks it"
        elif op not in TEXT_OPS and not hasattr(tf.raw_ops, op):
            yield f"op {op} is neither TensorFlow's nor TensorFlow Text's: a stock server lacks it"
    if graph_def.versions.min_consumer > GRAPH_VERSION:
        yield (
            f"the graph asks for version {graph_def.versions.min_consumer} of the graph format; "
            f"TensorFlow 2.20 has {GRAPH_VERSION}"
        )


def state_findings(graph):
    """Yields the signatures of a `MetaGraphDef` whose answers depend on what was asked before."""
    functions = {f.signature.name: f.node_def for f in graph.graph_def.library.function}
    top = {node.name: node for node in graph.graph_def.node}
    for name, signature in sorted(graph.signature_def.items()):
        if name == "__saved_model_init_op":
            continue
        outputs = [info.name.split(":")[0] for info in signature.outputs.values()]
        found = {node.op for node in _reached(outputs, top, functions) if _keeps_state(node.op)}
        for op in sorted(found):
            yield (
                f"signature {name} keeps a state (op {op}): the same request would be answered "
                "differently. Draw from a seed that comes with the request."
            )


def _keeps_state(op):
    return op.startswith(STATEFUL_KINDS) or op in STATEFUL_OPS


def _reached(outputs, top, functions):
    """Yields the nodes that compute some outputs, those inside of functions included."""
    waiting, seen, called = list(outputs), set(), set()
    while waiting:
        name = waiting.pop().lstrip("^").split(":")[0]
        if name in seen or name not in top:
            continue
        seen.add(name)
        waiting += top[name].input
        inside = [top[name]]
        while inside:
            node = inside.pop()
            yield node
            for function in called_functions(node):
                if function in functions and function not in called:
                    called.add(function)
                    inside += functions[function]


def called_functions(node):
    """Yields the names of the functions that a node calls."""
    for attribute in node.attr.values():
        if attribute.HasField("func"):
            yield attribute.func.name
        yield from (function.name for function in attribute.list.func)


def compiled_names(graph_def) -> list[str]:
    """Returns the names of functions and nodes that ask for XLA."""
    found = {f.signature.name for f in graph_def.library.function if _compiled(f.attr)}
    return sorted(found | {node.name for node in nodes(graph_def) if _compiled(node.attr)})


def _compiled(attributes):
    return "_XlaMustCompile" in attributes and attributes["_XlaMustCompile"].b
