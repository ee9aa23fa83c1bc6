"""Helpers shared by several packages: validation, masks, dtypes, random numbers, registration."""

__all__ = []
