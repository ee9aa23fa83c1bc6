"""Recognizing digits by glimpses on the command line."""
