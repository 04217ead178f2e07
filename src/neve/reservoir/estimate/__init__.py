"""What a weighted sample says of everything that it was taken from, and how sure that is."""
