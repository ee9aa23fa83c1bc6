"""Translators on the command line: text pairs in, ranked outputs out."""
