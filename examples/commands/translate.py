"""`python -m examples translate`, for runs of translators."""

from examples.translation.translate import EPILOG, SUMMARY, add_arguments, run

__all__ = ["EPILOG", "SUMMARY", "add_arguments", "run"]
