"""The experiments of docs/results.md: one table, run one after another, written as rows."""
