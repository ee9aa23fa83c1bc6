"""What the GPU suite compares: cases of rows, the most telling first.

A row's floor is the least time its work can take on the measured ceilings: the products' floating
point operations, the bytes that must pass through the memory, the hyperbolic tangents.
"""

import dataclasses

JAX, TORCH = "benchmarks.gpu.jax_sides", "benchmarks.gpu.torch_sides"
PASSES = {"forward": False, "both": True}
DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that is timed.

    Attributes:
        side: Whose it is and in which form.
        what: The pass, the beam or the like.
        library: "jax" or "torch".
        factory: "module:function".
        options: Its keyword arguments.
        flops: Operations of the products.
        dtype: "float32" or "bfloat16", which tells the products' ceiling.
        bytes: Bytes that are read and written at least.
        tanhs: Hyperbolic tangents.
        same: Rows with the same string here must compute the same number.
    """

    side: str
    what: str
    library: str
    factory: str
    options: dict
    flops: float = 0
    dtype: str = "float32"
    bytes: float = 0
    tanhs: float = 0
    same: str = ""

    @property
    def name(self) -> str:
        """What a worker calls it."""
        return f"{self.side}, {self.what}"


@dataclasses.dataclass(frozen=True)
class Case:
    """Rows that take turns."""

    name: str
    rows: list[Row]
    per: int = 1  # tokens in a call, for milliseconds a token


def jax_row(side, what, function, options, **work):
    """Returns a row of `jax_sides`."""
    return Row(side, what, "jax", f"{JAX}:{function}", options, **work)


def torch_row(side, what, function, options, **work):
    """Returns a row of `torch_sides`."""
    return Row(side, what, "torch", f"{TORCH}:{function}", options, **work)


def all_cases(small: bool) -> list[Case]:
    """Returns all cases in the order in which they are measured."""
    s = small
    return [
        ceilings(s),
        additive(*((2, 24, 40, 16) if s else (8, 1024, 1024, 256)), dense=False, compiled=True),
        make_decoding_case("transformer", 1, s),
        make_training_case(s),
        heads(*((2, 16, 32, 4) if s else (16, 512, 512, 8)), "bfloat16", compiled=True),
        heads(*((2, 16, 32, 4) if s else (16, 512, 512, 8)), "float32"),
        normalizers(*((2, 8, 8) if s else (8, 256, 256)), monotonic=True),
        dot(*((1, 32, 8) if s else (1, 4096, 64)), "float32"),
        make_decoding_case("transformer", 32, s),
        ntm(s),
        make_decoding_case("rnnsearch", 1, s),
        additive(*((3, 5, 6, 8) if s else (64, 30, 30, 256))),
        additive(*((3, 1, 6, 8) if s else (64, 1, 200, 512))),
        dot(*((1, 32, 8) if s else (1, 4096, 64)), "bfloat16"),
        dot(*((1, 64, 8) if s else (1, 16384, 64)), "float32"),
        heads(*((1, 32, 32, 4) if s else (4, 4096, 1024, 16)), "bfloat16"),
        heads(*((1, 32, 32, 4) if s else (4, 4096, 1024, 16)), "bfloat16", causal=True),
        make_decoding_case("rnnsearch", 32, s),
        make_decoding_case("transformer", 256, s),
        normalizers(*((4, 1, 20) if s else (64, 1, 1000))),
        dot(*((1, 64, 8) if s else (1, 16384, 64)), "bfloat16"),
        heads(*((1, 32, 32, 4) if s else (4, 4096, 1024, 16)), "float32"),
        heads(*((1, 32, 32, 4) if s else (4, 4096, 1024, 16)), "float32", causal=True),
    ]


def ceilings(small):
    """The copy, the products and the tangents that everything else is compared with."""
    size, megabytes = (128, 1) if small else (8192, 2048)
    rows = []
    for make, side in ((jax_row, "JAX"), (torch_row, "PyTorch")):
        rows.append(
            make(side, "copy", "copy", {"megabytes": megabytes}, bytes=2 * megabytes * 2**20)
        )
        for what, dtype, precision in (
            ("product bfloat16", "bfloat16", None),
            ("product float32, default (TF32)", "float32", None),
            ("product float32, highest", "float32", "highest"),
        ):
            options = {"size": size, "dtype": dtype, "precision": precision}
            rows.append(make(side, what, "product", options, flops=2 * size**3, dtype=dtype))
    count, times = (2**10, 4) if small else (2**25, 64)
    options = {"count": count, "times": times}
    rows.append(jax_row("JAX", "tanh", "tangents", options, tanhs=count * times))
    return Case("ceilings", rows)


def heads(batch, length, width, heads, dtype, causal=False, compiled=False):
    """Multi-head self-attention."""
    rows = []
    sizes = {"batch": batch, "length": length, "width": width, "heads": heads}
    attention = 4 * batch * length**2 * width * (0.5 if causal else 1)
    for what, gradient in PASSES.items():
        options = {**sizes, "dtype": dtype, "causal": causal, "gradient": gradient}
        work = {
            "flops": (8 * batch * length * width**2 + attention) * (3 if gradient else 1),
            "bytes": batch * length * width * _size(dtype) * (5 if gradient else 2),
            "dtype": dtype,
        }
        rows.append(jax_row("ours", what, "heads", {"owner": "ours", **options}, **work))
        rows.append(jax_row("Keras", what, "heads", {"owner": "Keras", **options}, **work))
        rows.append(torch_row("PyTorch, SDPA", what, "heads", options, **work))
        if compiled:
            options = {**options, "compiled": True}
            rows.append(torch_row("PyTorch, compiled", what, "heads", options, **work))
    name = f"heads {batch} x {length} x {width}, {heads} heads, {dtype}"
    return Case(name + (", causal" if causal else ""), rows)


def dot(batch, length, width, dtype):
    """Scaled dot-product attention."""
    rows = []
    sizes = {"batch": batch, "queries": length, "keys": length, "width": width, "dtype": dtype}
    for what, gradient in PASSES.items():
        options = {**sizes, "gradient": gradient}
        work = {
            "flops": 4 * batch * length**2 * width * (3 if gradient else 1),
            # Key and value are one tensor.
            "bytes": batch * length * width * _size(dtype) * (4 if gradient else 3),
            "dtype": dtype,
        }
        rows.append(jax_row("ours", what, "dot", {"owner": "ours", **options}, **work))
        rows.append(jax_row("Keras", what, "dot", {"owner": "Keras", **options}, **work))
        rows.append(torch_row("PyTorch, SDPA", what, "dot", options, **work))
    return Case(f"dot {batch} x {length} x {length} x {width}, {dtype}", rows)


def additive(batch, queries, keys, width, dense=True, compiled=False):
    """Additive attention."""
    rows = []
    sizes = {"batch": batch, "queries": queries, "keys": keys, "width": width}
    for what, gradient in PASSES.items():
        options = {**sizes, "gradient": gradient}
        times = 3 if gradient else 1
        work = {
            "tanhs": batch * queries * keys * width,
            "flops": 2 * batch * (queries + keys) * width**2 * times,
            "bytes": 4 * batch * (2 * queries + keys) * width * (2 if gradient else 1),
        }
        for name, blockwise in (
            ("ours", "auto"),
            *((("ours, all pairs", False),) if dense else ()),
        ):
            given = {"owner": "ours", "blockwise": blockwise, **options}
            rows.append(jax_row(name, what, "additive", given, same=what, **work))
        rows.append(jax_row("Keras", what, "additive", {"owner": "Keras", **options}, **work))
        rows.append(torch_row("PyTorch", what, "additive", options, **work))
        if compiled:
            options = {**options, "compiled": True}
            rows.append(torch_row("PyTorch, compiled", what, "additive", options, **work))
    return Case(f"additive {batch} x {queries} x {keys} x {width}, float32", rows)


def normalizers(*shape, monotonic=False):
    """Normalizers alone."""
    kinds = {"softmax": "softmax", "sparsemax": "sparsemax", "entmax 1.5": "entmax"}
    if monotonic:
        kinds |= {"monotonic": "monotonic", "monotonic, recursive": "recursive"}
    rows = []
    for what, gradient in PASSES.items():
        for side, kind in kinds.items():
            count = shape[0] * shape[1] * shape[2]
            options = {"kind": kind, "shape": list(shape), "gradient": gradient}
            work = {"bytes": 4 * count * 2}  # scores in, weights or their gradient out
            rows.append(jax_row(side, what, "normalizer", options, **work))
    return Case(f"normalizers {' x '.join(map(str, shape))}, float32", rows)


def make_training_case(small):
    """Training steps of the translators beside their PyTorch twins."""
    batch, length, width, layers, vocabulary = (2, 5, 16, 1, 50) if small else SENTENCES
    sizes = {"batch": batch, "length": length, "width": width, "layers": layers}
    rows = []
    for system, title in (("transformer", "Transformer"), ("rnnsearch", "RNNsearch")):
        is_transformer = system == "transformer"
        weights = (28 * layers if is_transformer else 35) * width**2
        attention = 4 * batch * length**2 * width * (3 * layers if is_transformer else 1)
        parameters = weights + 2 * vocabulary * width
        for dtype in DTYPES:
            what = f"{title}, {dtype}"
            options = {**sizes, "system": system, "vocabulary": vocabulary, "dtype": dtype}
            work = {
                "flops": 3 * (2 * batch * length * (weights + vocabulary * width) + attention),
                "bytes": 4 * 7 * parameters,  # gradient, weights, two moments: read or written
                "dtype": dtype,
            }
            rows.append(jax_row("ours", what, "make_training_step", options, **work))
            rows.append(torch_row("PyTorch, eager", what, "make_training_step", options, **work))
            if is_transformer:
                options = {**options, "compiled": True}
                rows.append(
                    torch_row("PyTorch, compiled", what, "make_training_step", options, **work)
                )
    return Case(f"training {batch} x {length}, width {width}", rows)


def make_decoding_case(system, batch, small):
    """Greedy and beam search of one system at one batch size."""
    _, _, width, layers, vocabulary = (2, 5, 16, 1, 50) if small else SENTENCES
    batch, source, length = (min(batch, 2), 5, 4) if small else (batch, 20, 32)
    rows = []
    sizes = {"batch": batch, "source_length": source, "length": length, "width": width}
    sizes |= {"vocabulary": vocabulary}
    is_transformer = system == "transformer"
    # A step of the Transformer prepares no keys and values of the source.
    weights = (14 * layers if is_transformer else 21) * width**2 + vocabulary * width
    for dtype in DTYPES:
        for beam in (1, 4):
            options = {**sizes, "beam": beam}
            ours = {**options, "system": system, "layers": layers, "dtype": dtype}
            what = f"{'greedy' if beam == 1 else 'beam 4'}, {dtype}"
            work = {
                "flops": 2 * batch * beam * length * weights,
                "bytes": length * weights * _size(dtype),
                "dtype": dtype,
            }
            rows.append(jax_row("ours", what, "search", ours, **work))
            if is_transformer:
                given = {**options, "layers": layers, "dtype": dtype}
                rows.append(jax_row("naive loop", what, "naive_search", given, **work))
            elif dtype == "float32":
                rows.append(torch_row("PyTorch, eager", what, "search", options, **work))
    title = "Transformer" if is_transformer else "RNNsearch"
    return Case(f"decoding {title}, batch {batch}, {length} tokens", rows, per=length)


def ntm(small):
    """The copy task of the Neural Turing Machine, at the sizes of the `ntm` suite."""
    sizes = {"batch": 32, "length": 20, "memory_size": 128, "word_size": 20, "units": 100}
    if small:
        sizes = {"batch": 2, "length": 3, "memory_size": 8, "word_size": 4, "units": 6}
    rows = [jax_row("ours", "both", "ntm", sizes)]
    for side, tuned in (("PyTorch, eager", False), ("PyTorch, eager, tuned", True)):
        rows.append(torch_row(side, "both", "ntm", {**sizes, "tuned": tuned}))
    return Case(f"NTM copy, batch {sizes['batch']}, {2 * sizes['length'] + 1} steps", rows)


#: Batch, length, width, layers and vocabulary of the translators.
SENTENCES = (64, 30, 256, 3, 8000)


def _size(dtype):
    return 2 if dtype == "bfloat16" else 4
