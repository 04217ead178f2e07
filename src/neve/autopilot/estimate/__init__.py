"""What a layout would read, told from a sample, before anything is rewritten."""
