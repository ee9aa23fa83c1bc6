"""Who may import whom, and that private names stay in their module."""

import ast
import re

import pytest
from source_files import ROOT, find_files, has_init, read_imports

#: What the modules of a folder may import of the library besides `_utils` and `validation`.
MAY_IMPORT = {
    "_utils": (),
    "validation": (),
    "scorers": ("kernels",),
    "normalizers": ("kernels",),
    "core": ("kernels",),
    "losses": (),
    "metrics": ("losses",),
    "glimpses": (),
    "attention": ("core", "kernels", "losses", "normalizers", "scorers"),
    "pooling": ("attention", "normalizers", "scorers"),
    "memory_networks": ("normalizers",),
    "recurrent": ("attention", "kernels", "normalizers"),
    "ntm": ("kernels", "recurrent", "scorers"),
    "transformer": ("attention", "core", "kernels"),
    "convolutional": ("attention", "core"),
    "decoders": (
        "attention",
        "convolutional",
        "core",
        "kernels",
        "normalizers",
        "recurrent",
        "search",
        "transformer",
    ),
    "kernels": ("attention", "normalizers", "ntm", "recurrent", "scorers"),
    "search": ("kernels",),
    "plotting": (),
    "callbacks": ("data", "plotting"),
    "data": (),
}


def _offenders(files, *packages):
    """Returns "file imports module" for each import of one of the packages or their parts."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in sorted(read_imports(path))
        if any(name == package or name.startswith(package + ".") for package in packages)
    ]


#: What Keras does not offer on every backend is asked of the backend, inside of a function.
ASK_THE_BACKEND = {
    "keras_attention/_utils/shapes.py",
    "keras_attention/callbacks/alignment_images.py",
    "keras_attention/callbacks/xla_steps.py",
    "keras_attention/data/resumable_arrays.py",
    "keras_attention/data/resumable_dataset.py",
    "keras_attention/kernels/custom_gradients.py",
    "keras_attention/kernels/execution_mode.py",
    "keras_attention/kernels/matmul_precision.py",
    "keras_attention/kernels/xla_barriers.py",
    "keras_attention/search/_beam_search_invariants.py",
    "keras_attention/search/_indexing.py",
}


def test_the_library_imports_no_backend_that_is_not_running():
    files = [path for path in find_files("keras_attention") if "export" not in path.parts]
    offenders = _offenders(files, "tensorflow", "jax", "torch")
    assert {one.split()[0] for one in offenders} == ASK_THE_BACKEND
    for name in ASK_THE_BACKEND:
        body = ast.parse((ROOT / name).read_text()).body
        at_the_top = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
        text = " ".join(ast.unparse(node) for node in at_the_top)
        assert not re.search(r"\b(tensorflow|jax|torch)\b", text), name


def test_tests_of_layers_get_tensorflow_where_it_may_be_missing():
    """They run on JAX and PyTorch too, without TensorFlow."""
    subjects = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir()]
    subjects = set(subjects) - {"benchmarks", "examples", "export", "tools"}
    files = find_files(*(f"tests/{name}" for name in sorted(subjects)))
    offenders = {one.split()[0] for one in _offenders(files, "tensorflow")}
    assert offenders == {"tests/conformance/backends.py"}  # asks for the backend first


def test_the_library_uses_public_keras_only():
    assert _offenders(find_files("keras_attention", "export"), "keras.src") == []


def test_nothing_imports_export_by_its_folder():
    folders = ("keras_attention", "export", "examples", "benchmarks", "tests")
    assert _offenders(find_files(*folders), "export") == []


def test_dependencies_point_one_way():
    library, out = find_files("keras_attention"), "keras_attention"
    assert _offenders(library, "examples", "benchmarks") == []
    top = "keras_attention/__init__.py imports keras_attention.export"  # for type checkers alone
    assert _offenders(library, f"{out}.export") == [top]
    assert _offenders(find_files("export"), "examples", "benchmarks") == []
    assert _offenders(find_files("examples"), "benchmarks") == []


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_what_stands_below_it(folder):
    allowed = {folder, "_utils", "validation", *MAY_IMPORT[folder]}
    modules = [f"keras_attention.{name}" for name in MAY_IMPORT if name not in allowed]
    modules.append("keras_attention.export")
    assert _offenders(find_files(f"keras_attention/{folder}"), *modules) == []


def test_the_page_on_architecture_has_the_same_table():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("| folder | may import |") : page.index("`MAY_IMPORT` in")]
    stated = {}
    for row in table.splitlines()[2:]:
        cells = [re.findall(r"`(\w+)`", cell) for cell in row.split("|")[1:-1]]
        if cells:
            stated.update(dict.fromkeys(cells[0], tuple(cells[1])))
    everyone_may_import = {"_utils": (), "validation": ()}
    assert {**stated, **everyone_may_import} == MAY_IMPORT


def test_the_root_holds_folders_alone():
    found = {path.name for path in (ROOT / "keras_attention").glob("*.py")}
    assert found == {"__init__.py"}
    folders = {path.name for path in (ROOT / "keras_attention").iterdir() if has_init(path)}
    assert folders == {*MAY_IMPORT, "export"}


def _private_imports(path, own_package):
    """Returns the private names of the library that a file of another package imports."""
    return [
        f"{path.name} imports {name}"
        for name in sorted(read_imports(path))
        if name.startswith("keras_attention.")
        and any(part.startswith("_") for part in name.split("."))
        and not name.startswith(f"{own_package}.")
    ]


@pytest.mark.parametrize("folder", ["examples", "benchmarks", "export"])
def test_what_stands_outside_the_library_imports_its_public_names_alone(folder):
    own_package = "keras_attention.export" if folder == "export" else folder
    found = [one for path in find_files(folder) for one in _private_imports(path, own_package)]
    assert found == []


@pytest.mark.parametrize(
    "line, in_export, in_examples",
    [
        ("from keras_attention._utils import base_layer", True, True),
        ("from keras_attention._utils.base_layer import Layer", True, True),
        ("from keras_attention import _utils", True, True),
        ("import keras_attention.search._log_probs", True, True),
        ("def function():\n    from keras_attention.search import _ranking", True, True),
        ("from keras_attention.export import _digest_manifest", False, True),
        (
            "from keras_attention.export.serving._listening_socket import format_address",
            False,
            True,
        ),
        ("from keras_attention.search import beam_search", False, False),
        ("from tensorflow import _private", False, False),
    ],
)
def test_private_imports_of_other_packages_are_found(tmp_path, line, in_export, in_examples):
    path = tmp_path / "module.py"
    path.write_text(line)
    assert bool(_private_imports(path, "keras_attention.export")) == in_export
    assert bool(_private_imports(path, "examples")) == in_examples


#: Methods of Keras and of named tuples, which we define or call.
FOREIGN = {"_flatten_layers", "_replace"}


def _private_attributes(tree):
    """Returns the private names that a module defines, and those that it reads of other objects."""
    defined, used = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            is_own = ast.unparse(node.value) in ("self", "cls", "super()")
            (defined if is_own else used).add(node.attr)
    return {name for name in defined if name.startswith("_")}, used - defined


def _find_private_uses(sources):
    """Returns "file uses name" where a module uses what is private in another of `sources`."""
    found = {name: _private_attributes(ast.parse(text)) for name, text in sources.items()}
    ours = {
        one for defined, _ in found.values() for one in defined if not one.endswith("__")
    } - FOREIGN
    return [f"{name} uses {one}" for name, (_, used) in found.items() for one in used & ours]


def test_private_attributes_are_used_in_their_own_module():
    files = find_files("keras_attention", "export", "examples", "benchmarks")
    assert _find_private_uses({str(path): path.read_text() for path in files}) == []


def test_uses_of_private_attributes_are_found():
    box = "class Box:\n    def __init__(self): self._size = 1\n    def _open(self): ..."
    uses = {"a": box, "b": "box._size = 2", "c": "box._open()", "d": "row._replace(x=1)"}
    assert _find_private_uses(uses) == ["b uses _size", "c uses _open"]
    assert _find_private_uses({"a": f"{box}\nBox()._open()"}) == []


def test_optional_packages_are_imported_where_they_are_used():
    """Importing the library must work without any extra."""
    optional = {"matplotlib", "tensorflow_text", "sentencepiece", "babel", "rich", "sacrebleu"}
    for path in find_files("keras_attention"):
        for node in ast.parse(path.read_text()).body:
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module.split(".")[0]}
            assert not names & optional, f"{path.relative_to(ROOT)}: {names & optional}"
