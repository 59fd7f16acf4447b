"""Decompositions, inverses and determinants of matrices, on the AI CPU."""

from npusim.operators.checks import rank_in
from npusim.operators.definition import Aclnn, Composed, Operator, family, flag, real, scalar, whole
from npusim.operators.results import like
from npusim.ops.linear_algebra import results
from npusim.ops.linear_algebra.checks import square, systems

_MATRIX = (rank_in, range(2, 9), "x")
_SQUARE = (_MATRIX, (square, "x"))


# fmt: off
OPERATORS = family(
    "linear_algebra",
    decompositions=(
        Operator("Cholesky", "x -> y", (flag("upper?"),),
            Aclnn("aclnnLinalgCholesky", attributes=(flag("upper"),)), kernel="cholesky",
            infer=like, checks=_SQUARE),
        Operator("FillDiagonal", "x -> y", (real("fill_value?"), flag("wrap?")),
            Aclnn("aclnnInplaceFillDiagonal", "selfRef -> selfRef",
                (scalar("fillValue", "fill_value"), flag("wrap"))), kernel="fill_diagonal",
            infer=like, checks=((rank_in, (2,), "x"),)),
        Operator("LogMatrixDeterminant", "x -> sign y", (),
            Aclnn("aclnnSlogdet", "self -> signOut logOut"), kernel="log_determinant",
            infer=results.two_numbers, checks=_SQUARE),
        Operator("MatrixDeterminant", "x -> y", kernel="determinant", infer=results.one_number,
            checks=_SQUARE),
        Operator("MatrixInverse", "x -> y", (flag("adjoint?"),), Aclnn("aclnnInverse"),
            kernel="inverse", infer=like, checks=_SQUARE),
        Operator("Qr", "x -> q r", (flag("full_matrices?"),), kernel="qr",
            infer=results.orthogonal, checks=(_MATRIX,)),
        Operator("Svd", "x -> sigma u v", (flag("full_matrices?"), flag("compute_uv?")),
            Aclnn("aclnnSvd", "input -> sigma u v",
                (flag("fullMatrices", "full_matrices"), flag("computeUV", "compute_uv"))),
            kernel="svd", infer=results.singular, checks=(_MATRIX,)),
        Operator("MatrixTriangularSolve", "b a -> x",
            (flag("upper?"), flag("transpose?"), flag("unit?")), kernel="triangular_solve",
            infer=results.broadcast_batches, checks=((square, "a"),)),
    ),
    host=(
        Composed("aclnnLogdet", "self -> out", (), "log_of_determinant",
            checks=((rank_in, range(2, 9), "self"), (square, "self"))),
        Composed("aclnnTriangularSolve", "self A -> xOut mOut",
            (flag("upper"), flag("transpose"), flag("unitriangular", "unit")), "solved",
            checks=((rank_in, range(2, 9), "self", "A"), (square, "A"),
                (systems, "self", "A", "xOut", "mOut"))),
        Composed("aclnnQr", "self -> Q R", (flag("some"),), "decomposed",
            checks=((rank_in, range(2, 9), "self"),)),
        Composed("aclnnLinalgQr", "self -> Q R", (whole("mode"),), "decomposed_by_mode",
            checks=((rank_in, range(2, 9), "self"),)),
    ),
)
