"""Series from rows of the table `metrics`: names, labels, samples."""
