"""The door of queries on the network: HTTP in, HTTP out; the answers come from the query room."""
