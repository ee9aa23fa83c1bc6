"""Captions on the command line: scenes of handwritten digits in, what they show out."""
