"""The documentation: pages written by hand, and pages made from code by `python -m docs.generate`."""
