"""Classes of documents on the command line: sentences in, a label and its reasons out."""
