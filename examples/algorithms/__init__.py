"""The tasks of the Neural Turing Machine on the command line: bits in, bits out."""
