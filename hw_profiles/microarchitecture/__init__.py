"""What all chips of one microarchitecture share; a package so that its files are installed."""
