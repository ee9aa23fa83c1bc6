"""What is packaged, what each package offers, and what it requires."""

import ast
import importlib
import importlib.metadata
import re
import sys
import tomllib

import pytest
from source_files import ROOT, find_files, has_init

import keras_attention
from keras_attention.validation import optional_packages

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


def _packages_of_the_tree():
    found = set()
    for name, folder in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((name, *parts)))
    return found


def test_the_list_of_packages_is_that_of_the_tree():
    assert sorted(PACKAGES) == PACKAGES
    assert set(PACKAGES) == _packages_of_the_tree()


def test_every_folder_with_code_is_a_package():
    for name, folder in FOLDERS.items():
        bare = {path.parent for path in find_files(folder) if not has_init(path.parent)}
        assert not bare, f"{name}: {bare}"


def test_no_module_hides_one_of_the_standard_library():
    """A script's folder comes first in `sys.path`: its `numbers.py` hides the real one."""
    files = find_files("keras_attention", "export", "examples", "benchmarks", "tests")
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


def test_every_extra_and_group_that_an_error_names_exists():
    """The commands are those of `missing_package_error`, with the distribution's name."""
    assert optional_packages.DISTRIBUTION == PROJECT["project"]["name"]
    known, named = set(PROJECT["project"]["optional-dependencies"]), set()
    groups = set()
    for path in find_files("keras_attention", "export", "examples", "benchmarks"):
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
