"""One module a paper's model, assembled with the functional API."""
