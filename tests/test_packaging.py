"""What is packaged, what each package offers, and who may import whom."""

import ast
import importlib
import importlib.metadata
import inspect
import pathlib
import pkgutil
import re
import sys
import tomllib

import pytest

import keras_attention
from keras_attention.validation import optional_packages

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
FOLDERS = {"keras_attention": "keras_attention", "keras_attention.export": "export"}
LAYER_FOLDERS = (
    "scorers",
    "normalizers",
    "core",
    "losses",
    "glimpses",
    "attention",
    "pooling",
    "memory_networks",
    "recurrent",
    "ntm",
    "transformer",
    "convolutional",
    "decoders",
)
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


def _packages_of_the_tree():
    found = set()
    for name, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((name, *parts)))
    return found


def _imports(path):
    """Returns the full names of all modules that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _files(*folders):
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert files, f"no Python file in {folders}"
    return files


def _offenders(files, *packages):
    """Returns "file imports module" for each import of one of the packages or their parts."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in sorted(_imports(path))
        if any(name == package or name.startswith(package + ".") for package in packages)
    ]


def test_the_list_of_packages_is_that_of_the_tree():
    assert sorted(PACKAGES) == PACKAGES
    assert set(PACKAGES) == _packages_of_the_tree()


def test_every_folder_with_code_is_a_package():
    for name, folder in FOLDERS.items():
        bare = {path.parent for path in _files(folder) if not _has_init(path.parent)}
        assert not bare, f"{name}: {bare}"


def _has_init(folder):
    return (folder / "__init__.py").is_file()


def test_no_module_hides_one_of_the_standard_library():
    """A script's folder comes first in `sys.path`: its `numbers.py` hides the real one."""
    files = _files("keras_attention", "export", "examples", "benchmarks", "tests")
    named = {path: path.parent.name if path.stem == "__init__" else path.stem for path in files}
    hiding = {path.relative_to(ROOT) for path in files if named[path] in sys.stdlib_module_names}
    assert hiding == set()


def test_only_the_library_and_export_are_packaged():
    assert {name.split(".")[0] for name in PACKAGES} == {"keras_attention"}
    link = ROOT / "keras_attention" / "export"
    assert link.is_symlink() and link.resolve() == ROOT / "export"


def test_the_versions_of_package_distribution_and_project_are_equal():
    distribution = importlib.metadata.version(PROJECT["project"]["name"])
    assert distribution == PROJECT["project"]["version"] == keras_attention.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", distribution)


def _requirements():
    """Returns `(where, requirement)` for every requirement of the project and of its groups."""
    found = [("dependencies", line) for line in PROJECT["project"]["dependencies"]]
    for table in (PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]):
        found += [(name, line) for name, lines in table.items() for line in lines]
    return [(where, line) for where, line in found if isinstance(line, str)]


def test_groups_name_packages_of_others_alone():
    """pip would install the project itself from an index for a group that names it."""
    named = {line for where, line in _requirements() if where in PROJECT["dependency-groups"]}
    assert named and not any(line.startswith(PROJECT["project"]["name"]) for line in named)


def test_tensorflow_and_tensorflow_text_have_the_same_bounds():
    pattern = r"tensorflow(?:-text|\[and-cuda\])?([<>=].*)"
    matches = [re.fullmatch(pattern, line) for _, line in _requirements()]
    assert [match[1] for match in matches if match] == [">=2.20,<2.22"] * 3


def test_every_direct_requirement_is_constrained():
    """`make install` installs the versions of `constraints.txt`. Peers of benchmarks are free.

    `.ci/beam` has the versions of Apache Beam.
    """
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    constrained = {line.split("==")[0].lower() for line in lines if "==" in line}
    wanted = {re.split(r"[<>=\[]", line)[0] for _, line in _requirements()}
    wanted -= {PROJECT["project"]["name"], "apache-beam", "ctranslate2", "torch"}
    assert wanted - constrained == set()


def test_the_changelog_knows_the_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    version = re.escape(PROJECT["project"]["version"])
    assert re.search(rf"^## \[?({version}|Unreleased)\b", text, re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_sorted_and_everything_in_it_exists(package):
    module = importlib.import_module(package)
    assert module.__doc__, f"{package} says what it is for"
    assert list(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        assert hasattr(module, name), f"{package}.{name}"


def test_layers_have_one_public_path_beside_their_folder():
    top = importlib.import_module("keras_attention")
    for package in LAYER_FOLDERS:
        module = importlib.import_module(f"keras_attention.{package}")
        classes = {n for n in module.__all__ if isinstance(getattr(module, n), type)}
        assert classes <= set(top.__all__)
        assert all(getattr(top, name) is getattr(module, name) for name in classes)


#: What Keras does not offer on every backend is asked of the backend, inside of a function.
ASK_THE_BACKEND = {
    "keras_attention/callbacks/alignment_images.py",
    "keras_attention/callbacks/xla_steps.py",
    "keras_attention/data/resumable_arrays.py",
    "keras_attention/data/resumable_dataset.py",
    "keras_attention/kernels/custom_gradients.py",
    "keras_attention/kernels/execution.py",
    "keras_attention/kernels/products.py",
    "keras_attention/search/_invariants.py",
}


def test_the_library_imports_no_backend_that_is_not_running():
    files = [path for path in _files("keras_attention") if "export" not in path.parts]
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
    files = _files(*(f"tests/{name}" for name in sorted(subjects)))
    offenders = {one.split()[0] for one in _offenders(files, "tensorflow")}
    assert offenders == {"tests/conformance/backends.py"}  # asks for the backend first


def test_the_library_uses_public_keras_only():
    assert _offenders(_files("keras_attention", "export"), "keras.src") == []


def test_nothing_imports_export_by_its_folder():
    folders = ("keras_attention", "export", "examples", "benchmarks", "tests")
    assert _offenders(_files(*folders), "export") == []


def test_dependencies_point_one_way():
    library, out = _files("keras_attention"), "keras_attention"
    assert _offenders(library, "examples", "benchmarks") == []
    top = "keras_attention/__init__.py imports keras_attention.export"  # for type checkers alone
    assert _offenders(library, f"{out}.export") == [top]
    assert _offenders(_files("export"), "examples", "benchmarks") == []
    assert _offenders(_files("examples"), "benchmarks") == []


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_what_stands_below_it(folder):
    allowed = {folder, "_utils", "validation", *MAY_IMPORT[folder]}
    modules = [f"keras_attention.{name}" for name in MAY_IMPORT if name not in allowed]
    modules.append("keras_attention.export")
    assert _offenders(_files(f"keras_attention/{folder}"), *modules) == []


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
    folders = {path.name for path in (ROOT / "keras_attention").iterdir() if _has_init(path)}
    assert folders == {*MAY_IMPORT, "export"}


def _private_imports(path, own_package):
    """Returns the private names of the library that a file of another package imports."""
    return [
        f"{path.name} imports {name}"
        for name in sorted(_imports(path))
        if name.startswith("keras_attention.")
        and any(part.startswith("_") for part in name.split("."))
        and not name.startswith(f"{own_package}.")
    ]


@pytest.mark.parametrize("folder", ["examples", "benchmarks", "export"])
def test_what_stands_outside_the_library_imports_its_public_names_alone(folder):
    own_package = "keras_attention.export" if folder == "export" else folder
    found = [one for path in _files(folder) for one in _private_imports(path, own_package)]
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
    files = _files("keras_attention", "export", "examples", "benchmarks")
    assert _find_private_uses({str(path): path.read_text() for path in files}) == []


def test_uses_of_private_attributes_are_found():
    box = "class Box:\n    def __init__(self): self._size = 1\n    def _open(self): ..."
    uses = {"a": box, "b": "box._size = 2", "c": "box._open()", "d": "row._replace(x=1)"}
    assert _find_private_uses(uses) == ["b uses _size", "c uses _open"]
    assert _find_private_uses({"a": f"{box}\nBox()._open()"}) == []


def test_optional_packages_are_imported_where_they_are_used():
    """Importing the library must work without any extra."""
    optional = {"matplotlib", "tensorflow_text", "sentencepiece", "babel", "rich", "sacrebleu"}
    for path in _files("keras_attention"):
        for node in ast.parse(path.read_text()).body:
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module.split(".")[0]}
            assert not names & optional, f"{path.relative_to(ROOT)}: {names & optional}"


def test_every_extra_and_group_that_an_error_names_exists():
    """The commands are those of `missing_package_error`, with the distribution's name."""
    assert optional_packages.DISTRIBUTION == PROJECT["project"]["name"]
    known, named = set(PROJECT["project"]["optional-dependencies"]), set()
    groups = set()
    for path in _files("keras_attention", "export", "examples", "benchmarks"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                "missing_package_error"
            ):
                named |= {node.args[2].value} if len(node.args) == 3 else set()
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                extras = re.findall(r"pip install (?:-e )?[\"'`]*[\w.-]*\[([\w,]+)\]", node.value)
                named |= {extra for names in extras for extra in names.split(",")}
                groups |= set(re.findall(r"pip install [^`\n]*--group (\w+)", node.value))
                single = re.search(r"pip install (?:-e )?'", node.value)
                assert not single, f"{path}: Windows' shell knows double quotes only"
    assert {"export", "plot", "serve"} <= named
    assert named <= known, named - known
    assert groups == {"benchmarks", "examples"}
    assert groups <= set(PROJECT["dependency-groups"])


def _our_classes():
    """Yields the classes of the library, private ones too."""
    for module in pkgutil.walk_packages(keras_attention.__path__, "keras_attention."):
        if not module.name.endswith("__main__"):
            for member in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(member) and member.__module__ == module.name:
                    yield member


def test_no_two_methods_of_a_class_differ_by_an_underscore_alone():
    classes = list(_our_classes())
    assert keras_attention.MultiHeadAttention in classes
    for one in classes:
        bases = [base for base in one.__mro__ if base.__module__.startswith("keras_attention")]
        names = {name for base in bases for name in vars(base) if not name.startswith("__")}
        pairs = [name for name in names if name.startswith("_") and name.lstrip("_") in names]
        assert pairs == [], one


def test_the_output_spec_repeats_no_signature():
    for path in _files("keras_attention"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "compute_output_spec":
                named = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                given = {one.arg for one in named} - {"self"}
                assert len(given) <= 2, f"{path} repeats {sorted(given)} of `call`: use `bind_call`"
