"""How vector cores ask the cube core for products, which differs among kernels.

Most ask by messages in global memory, as the Matmul library does it: each makes an object for both
products and asks for one at a time. Messages with shapes, and those that end it, take little time.
Source: ops-transformer attention, op_kernel of flash_attention_score (s1s2_bn2gs1),
flash_attention_score_grad (s1s2_bn2gs1s2), prompt_flash_attention (s1s2_bns1_x910) and
incre_flash_attention (split_Bbn2s2_Us2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from npusim.engine.program import Pipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from npusim.ascendc import Core
    from npusim.ascendc.cluster import CoreWait

_MADE = 15  # the flag by which a vector core says that messages of its objects are there


class Asking(NamedTuple):
    """Messages of a vector core: ``objects`` at the start and so many for ``a_product``.

    Where nobody is ``ahead``, a vector core waits for each product that it has asked for.
    """

    objects: int
    a_product: int
    ahead: bool = True

    def begin(self, core: Core, lanes: int) -> Iterator[CoreWait]:
        """Objects of ``lanes`` vector cores."""
        if not self.objects:
            return
        if core.unit.kind == "cube":
            yield core.cross_core_wait_flag(_MADE)
            core.take_messages(lanes * self.objects)
        else:
            core.cross_core_set_flag(_MADE, Pipe.SCALAR)


LIBRARY = Asking(2, 1)
ONE_BY_ONE = Asking(2, 1, ahead=False)  # single tokens
FLAGS = Asking(0, 0)  # the cube core knows what comes next: latent and packed attention
