"""Language models on the command line: lines of text in, the probability of every token out."""
