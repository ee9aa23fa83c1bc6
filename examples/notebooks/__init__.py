"""Notebooks that read like articles, each built from a Markdown page of the same name.

`source` reads a page, `running` executes it, `python -m examples.notebooks` stores it with its
outputs. Edit the page, not the notebook.
"""
