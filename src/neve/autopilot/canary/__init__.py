"""Hot queries asked of main and of a branch."""
