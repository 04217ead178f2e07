"""Fuzzing: hostile bytes and statements against everything that reads what strangers send, in limited processes.

`wire`, `texts` and `containers` change inputs and know their structure; `corpus` has the inputs to begin with and
`bombs` those that are small to send and large to read. `targets` names what is fuzzed. `child` runs inputs within
limits of the operating system, `supervisor` starts it, outlives it and judges how it ended.
"""
