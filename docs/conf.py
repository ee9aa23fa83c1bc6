"""Configuration of the site: `make docs` builds it from the repository's pages and docstrings."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_extensions")]

project = "keras_attention"
author = copyright = "The keras_attention contributors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "accessible_pages",
    "api_pages",
    "call_arguments",
    "gallery",
    "linked_names",
]
# The root of the repository is the source, so that relative links are right here and there.
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/**/*.md",
    "docs/**/*.rst",
    "examples/README.md",
    "examples/notebooks/*.ipynb",
    "examples/notebooks/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
]
exclude_patterns = ["build/**", ".venv*/**"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # of `%matplotlib`, a command of Jupyter
nb_execution_mode = "off"  # notebooks are stored with their outputs
autodoc_typehints = "none"  # shapes and dtypes stand in the docstrings, types in the signature
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # a property may stand among the attributes and have its own entry
default_role = "code"  # `name` in a docstring
napoleon_custom_sections = [
    ("Call arguments", "params_style"),
    "Masking",
    "Reference",
    "Cache",
    "Methods for decoding",
]
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "keras_attention"
html_show_sourcelink = False
html_show_search_summary = False  # browsers fetch no page from disk
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["scrollable.js"]
html_extra_path = ["_site"]  # index.html, which leads to docs/index.html
