"""Cloze reading on the command line: a text and a sentence with a gap in, one of its words out."""
