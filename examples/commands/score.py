"""`python -m examples score`, for runs of translators."""

from examples.translation.score import EPILOG, SUMMARY, add_arguments, run

__all__ = ["EPILOG", "SUMMARY", "add_arguments", "run"]
