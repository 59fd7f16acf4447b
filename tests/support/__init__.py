"""What tests share.

pytest rewrites the assertions of plugins, and takes an editable npusim for one as a whole: a
thousand modules without any, which each worker would compile anew in a fresh clone, and processes
that tests start once more. Whoever imports from here, as tests/conftest.py does first, ends that.
"""

import sys

for _finder in sys.meta_path:
    if hasattr(_finder, "mark_rewrite"):
        _finder._must_rewrite.discard("npusim")
        _finder._marked_for_rewrite_cache.clear()
