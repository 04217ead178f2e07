"""Export of kept traces: destinations, their cursors, and the spans that they receive."""
