"""Side by side measurements of keras_attention and its peers, one command a suite.

Run `python -m benchmarks --help` from a checkout.
"""
