"""One module for each medium that a report can be shown on: terminal, HTML and Markdown, JSON."""
