"""Helpers shared by several packages: masks, dtypes, random numbers, registration."""

__all__ = []
