"""The subcommands of `python -m examples`, one module each."""
