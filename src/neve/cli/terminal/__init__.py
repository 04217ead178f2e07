"""Query results in a terminal: values, tables, vertical rows, plots, and the prompt."""
