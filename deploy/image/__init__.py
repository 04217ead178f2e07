"""Container image, or its root file system where no image can be built."""
