"""Tests of the doors on the network, through real sockets."""
