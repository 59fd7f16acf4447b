"""C++ programs call what the catalogue lists, with all parameters that CANN's headers have."""

from __future__ import annotations

import pytest

from npusim.capi.library import LIBRARY, installation
from support.capi import Workshop, needs_capi, needs_cffi, workshop

pytestmark = [needs_capi, needs_cffi]

# What each call returns, and the number that it leaves.
SAID = {
    "InplaceAdd": "0 4",
    "Mul": "0 5",
    "ForeachMulScalarList": "0 6",
    "WeightSize": f"0 {2 * 2 * 16 * 32}",
    "QuantParam": f"0 {0x40000000 | 1 << 46 | 0x1FF << 37:x}",
    "FormatCast": "0 4",
    "FormatCastOfRow": "161002 0",
    "FormatCastOfImages": "0 3005",
    "FormatCastNotOffered": "361001 0",
    "FormatCastOfNothing": "361001 0",
    "InitTensor": "0 1",
    "NoTensor": "161001 0",
    "FreeAfterReset": "0 0",
    "FreeTwice": "107002 0",
}


# Looking for an attribute of a capsule numbers its type.
CAPSULES = """
import ctypes, datetime, sys
hasattr(datetime.datetime_CAPI, "name")
print(ctypes.CDLL(sys.argv[1]).aclInit(None))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return workshop(tmp_path_factory)


def test_a_program_gets_what_the_pages_promise(shop: Workshop) -> None:
    said = shop.run(shop.program("library"))
    assert said.answers() == SAID, said.err
    assert said.code == 0


def test_a_python_that_has_looked_at_capsules_can_load_it(shop: Workshop) -> None:
    with shop.cache():
        path = installation().lib / LIBRARY
    said = shop.python(CAPSULES, path)
    assert (said.code, said.out.strip()) == (0, "0"), said.err
