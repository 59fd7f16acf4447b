"""Reports about one call: the answers of chips, their times side by side, the page about one."""
