"""pyasc programs on a simulated chip: the modules that they import, as doors onto the language."""
