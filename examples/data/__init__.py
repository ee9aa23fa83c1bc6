"""Data for the examples: dates made on the spot, readers of sentence pairs, batches.

`dates` makes the embedded default data, `parallel` reads a user's files, and
`batches` turns either into tensors of a few fixed shapes.
"""
