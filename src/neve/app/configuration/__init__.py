"""Reading of the configuration: the values that a user set, and settings that load their sections at the first use."""
