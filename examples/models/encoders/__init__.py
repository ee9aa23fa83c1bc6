"""Encoders, each a function that returns a functional model from source ids to a dict.

The dict has `memory` `(batch, source, dim)`, with the source's mask attached, and
`initial_state` where the decoder begins from it. `examples.models.assembly.translator` puts any
of them before any decoder.
"""
