"""Handwritten digits on the command line: recognized by glimpses, drawn through a window."""
