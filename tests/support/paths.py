"""Where the tests find what they read, whichever folder they lie in."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
DATA = TESTS / "data"  # small files of the tests' own
