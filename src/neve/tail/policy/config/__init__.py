"""Policy configuration: read a collector's `tail_sampling`, validate it, and build the policy tree."""
