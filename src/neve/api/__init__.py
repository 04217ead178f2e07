"""The doors on the network: thin; what they do is in the rooms."""
