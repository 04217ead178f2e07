"""Files on disks and in object storage: file systems, paths, and counters of storage calls."""
