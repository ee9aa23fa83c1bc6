"""Question answering over stories on the command line: sentences and a question in, a word out."""
