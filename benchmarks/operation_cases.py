"""One operation each, of sizes and with shardings that people use, over 8 devices."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """`operands` and `results` as `1024x512xf32 @ x -`: the type, and for each dimension the axes that split it.

    `content` of an operand, behind `:`, is what `contents.fill` of the tests knows, `numbers` if nothing is said.
    """

    family: str
    what: str
    operation: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: str = ""
    region: str = ""
    mesh: tuple[tuple[str, int], ...] = (("x", 8),)

    @property
    def name(self) -> str:
        return f"{self.family}: {self.what}"

    def text(self) -> str:
        """The program, annotated for Shardy."""
        mesh = ", ".join(f'"{name}"={size}' for name, size in self.mesh)
        arguments = ", ".join(f"%a{i}: {_annotated(o)}" for i, o in enumerate(self.operands))
        given = ", ".join(_annotated(r) for r in self.results)
        names = ", ".join(f"%a{i}" for i in range(len(self.operands)))
        operands = ", ".join(_type(o) for o in self.operands)
        results = ", ".join(_type(r) for r in self.results)
        made = ", ".join(f"%r#{i}" for i in range(len(self.results)))
        region = f" ({self.region})" if self.region else ""
        return (
            f"sdy.mesh @mesh = <[{mesh}]>\nfunc.func public @main({arguments}) -> ({given}) {{\n"
            f'  %r:{len(self.results)} = "{self.operation}"({names}){region} {{{self.attributes}}}'
            f" : ({operands}) -> ({results})\n  return {made} : {results}\n}}\n"
        )

    def contents(self) -> list[tuple[tuple[int, ...], str, str]]:
        """Shape, element type and content of every operand."""
        found = []
        for operand in self.operands:
            type_ = operand.partition(" ")[0]
            dims = re.findall(r"(\d+)x", re.match(r"(\d+x)*", type_)[0])  # type: ignore[index] - it matches anything
            element = re.sub(r"^(\d+x)*", "", type_)
            found.append((tuple(map(int, dims)), element, operand.partition(":")[2].strip() or "numbers"))
        return found


def _type(text: str) -> str:
    return f"tensor<{text.partition(' ')[0]}>"


def _annotated(text: str) -> str:
    type_, _, rest = text.partition("@")
    dims = rest.partition(":")[0].split()
    listed = ", ".join("{}" if d == "-" else "{" + ", ".join(f'"{a}"' for a in d.split(",")) + "}" for d in dims)
    return f"{_type(type_)} {{sdy.sharding = #sdy.sharding<@mesh, [{listed}]>}}"


def _body(name: str, element: str = "f32") -> str:
    t = f"tensor<{element}>"
    if name == "set":
        return f"{{\n^bb0(%p: {t}, %q: {t}):\n  stablehlo.return %q : {t}\n}}"
    return f"{{\n^bb0(%p: {t}, %q: {t}):\n  %c = stablehlo.{name} %p, %q : {t}\n  stablehlo.return %c : {t}\n}}"


def _comparing(direction: str) -> str:
    t = "tensor<f32>"
    return (
        f"{{\n^bb0(%p: {t}, %q: {t}):\n  %c = stablehlo.compare {direction}, %p, %q : ({t}, {t}) -> tensor<i1>\n"
        "  stablehlo.return %c : tensor<i1>\n}"
    )


_ARGMAX = """{
^bb0(%p: tensor<f32>, %i: tensor<i32>, %q: tensor<f32>, %j: tensor<i32>):
  %c = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %x = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>
  %k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>
  stablehlo.return %x, %k : tensor<f32>, tensor<i32>
}"""
_SCAN = """{
^bb0(%x: tensor<1024xf32>, %y: tensor<1024xf32>):
  %c = stablehlo.add %x, %y : tensor<1024xf32>
  stablehlo.return %c, %c : tensor<1024xf32>, tensor<1024xf32>
}"""
_GRID = (("x", 4), ("y", 2))


def _dot(left: int, right: int, batch: str = "") -> str:
    return (
        f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{batch}], "
        f"rhs_batching_dimensions = [{batch}], lhs_contracting_dimensions = [{left}], "
        f"rhs_contracting_dimensions = [{right}]>"
    )


def _listed(*numbers: int) -> str:
    return f"array<i64: {', '.join(map(str, numbers))}>"


def _slice(starts: tuple[int, int], limits: tuple[int, int], strides: tuple[int, int] = (1, 1)) -> str:
    return f"start_indices = {_listed(*starts)}, limit_indices = {_listed(*limits)}, strides = {_listed(*strides)}"


def _pad(low: int, high: int, interior: int = 0) -> str:
    return (
        f"edge_padding_low = {_listed(low, 0)}, edge_padding_high = {_listed(high, 0)}, "
        f"interior_padding = {_listed(interior, 0)}"
    )


def _window(sizes: tuple[int, ...], strides: tuple[int, ...], pads: str) -> str:
    return (
        f"window_dimensions = {_listed(*sizes)}, window_strides = {_listed(*strides)}, "
        f"padding = dense<{pads}> : tensor<{len(sizes)}x2xi64>"
    )


def _conv(
    names: str = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", pads: str = "[[1, 1], [1, 1]]", strides: int = 1,
    groups: int = 1, lhs: int = 1, rhs: int = 1,
) -> str:  # fmt: skip
    return (
        f"dimension_numbers = #stablehlo.conv<{names}>, padding = dense<{pads}> : tensor<2x2xi64>, "
        f"window_strides = {_listed(strides, strides)}, lhs_dilation = {_listed(lhs, lhs)}, "
        f"rhs_dilation = {_listed(rhs, rhs)}, feature_group_count = {groups} : i64, batch_group_count = 1 : i64"
    )


_ROWS = (
    "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
    "index_vector_dim = 1>, slice_sizes = array<i64: 1, 512>, indices_are_sorted = false"
)
_ALONG = (
    "dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0], "
    "start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>, "
    "indices_are_sorted = false"
)
_ADD_ROWS = (
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {}, indices_are_sorted = false"
)
_FFT = "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 512>"
_SOLVE = "left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
_M = "1024x1024xf32"
_SCANNED = "dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>"
_POOL = _window((1, 2, 2, 1), (1, 2, 2, 1), "0")
_SMOOTH = _window((1, 3, 3, 1), (1, 1, 1, 1), "[[0, 0], [1, 1], [1, 1], [0, 0]]")
_NORM = "epsilon = 0.5 : f32, feature_index = 3 : i64"

CASES = (
    # elementwise and layout
    Case("elementwise", "operands split alike", "stablehlo.add", (f"{_M} @ x -", f"{_M} @ x -"), (f"{_M} @ x -",)),
    Case("elementwise", "one operand split by rows, one by columns", "stablehlo.add",
         (f"{_M} @ x -", f"{_M} @ - x"), (f"{_M} @ x -",)),
    Case("layout", "rows to columns", "stablehlo.negate", (f"{_M} @ x -",), (f"{_M} @ - x",)),
    Case("layout", "swap of two axes", "stablehlo.negate", (f"{_M} @ x y",), (f"{_M} @ y x",), mesh=_GRID),
    Case("layout", "one axis moved of two", "stablehlo.negate", (f"{_M} @ x,y -",), (f"{_M} @ x y",), mesh=_GRID),
    Case("layout", "gathered", "stablehlo.negate", (f"{_M} @ x -",), (f"{_M} @ - -",)),
    Case("layout", "uneven rows to uneven columns", "stablehlo.negate", ("1021x1019xf32 @ x -",),
         ("1021x1019xf32 @ - x",)),
    Case("layout", "transpose, split alike", "stablehlo.transpose", (f"{_M} @ x -",), (f"{_M} @ - x",),
         "permutation = array<i64: 1, 0>"),
    Case("layout", "reshape that splits heads off", "stablehlo.reshape", (f"{_M} @ - x",), ("1024x16x64xf32 @ - x -",)),
    Case("layout", "reshape that merges batch and sequence", "stablehlo.reshape", ("16x128x512xf32 @ x - -",),
         ("2048x512xf32 @ x -",)),
    Case("layout", "reshape that merges, the minor dimension split", "stablehlo.reshape", ("16x128x512xf32 @ - x -",),
         ("2048x512xf32 @ x -",)),
    Case("layout", "reshape that merges unevenly", "stablehlo.reshape", ("10x128x512xf32 @ x - -",),
         ("1280x512xf32 @ x -",)),
    Case("layout", "broadcast of a row", "stablehlo.broadcast_in_dim", ("1024xf32 @ x",), (f"{_M} @ - x",),
         "broadcast_dimensions = array<i64: 1>"),
    Case("creation", "iota along the split", "stablehlo.iota", (), ("1024x1024xi32 @ x -",),
         "iota_dimension = 0 : i64"),
    # contraction
    Case("contraction", "batch split", "stablehlo.dot_general", (f"{_M} @ x -", "1024x512xf32 @ - -"),
         ("1024x512xf32 @ x -",), _dot(1, 0)),
    Case("contraction", "columns of the weights split", "stablehlo.dot_general", (f"{_M} @ - -", "1024x512xf32 @ - x"),
         ("1024x512xf32 @ - x",), _dot(1, 0)),
    Case("contraction", "rows of the weights split", "stablehlo.dot_general", (f"{_M} @ - x", "1024x512xf32 @ x -"),
         ("1024x512xf32 @ - -",), _dot(1, 0)),
    Case("contraction", "the same, result split", "stablehlo.dot_general", (f"{_M} @ - x", "1024x512xf32 @ x -"),
         ("1024x512xf32 @ x -",), _dot(1, 0)),
    Case("contraction", "weights split like the batch", "stablehlo.dot_general",
         ("4096x512xf32 @ x -", "512x512xf32 @ x -"), ("4096x512xf32 @ x -",), _dot(1, 0)),
    Case("contraction", "batch and weights on a grid", "stablehlo.dot_general", (f"{_M} @ x y", "1024x512xf32 @ y -"),
         ("1024x512xf32 @ x -",), _dot(1, 0), mesh=_GRID),
    Case("contraction", "heads of attention split", "stablehlo.dot_general",
         ("8x256x64xf32 @ x - -", "8x256x64xf32 @ x - -"), ("8x256x256xf32 @ x - -",), _dot(2, 2, "0")),
    Case("contraction", "sequence of the keys split", "stablehlo.dot_general",
         ("8x256x64xf32 @ - - -", "8x2048x64xf32 @ - x -"), ("8x256x2048xf32 @ - - x",), _dot(2, 2, "0")),
    Case("contraction", "uneven contraction", "stablehlo.dot_general", ("1024x1021xf32 @ - x", "1021x512xf32 @ x -"),
         ("1024x512xf32 @ - -",), _dot(1, 0)),
    # convolution
    Case("convolution", "batch split", "stablehlo.convolution",
         ("16x32x32x16xf32 @ x - - -", "3x3x16x32xf32 @ - - - -"), ("16x32x32x32xf32 @ x - - -",), _conv()),
    Case("convolution", "rows of the image split", "stablehlo.convolution",
         ("2x64x64x16xf32 @ - x - -", "3x3x16x32xf32 @ - - - -"), ("2x64x64x32xf32 @ - x - -",), _conv()),
    Case("convolution", "the same with stride 2", "stablehlo.convolution",
         ("2x64x64x16xf32 @ - x - -", "3x3x16x32xf32 @ - - - -"), ("2x32x32x32xf32 @ - x - -",), _conv(strides=2)),
    Case("convolution", "the same, transposed (dilated input)", "stablehlo.convolution",
         ("2x32x32x16xf32 @ - x - -", "3x3x16x32xf32 @ - - - -"), ("2x63x63x32xf32 @ - x - -",), _conv(lhs=2)),
    Case("convolution", "the same, atrous (dilated window)", "stablehlo.convolution",
         ("2x64x64x16xf32 @ - x - -", "3x3x16x32xf32 @ - - - -"), ("2x64x64x32xf32 @ - x - -",),
         _conv(pads="[[2, 2], [2, 2]]", rhs=2)),
    Case("convolution", "channels in split", "stablehlo.convolution",
         ("2x32x32x64xf32 @ - - - x", "3x3x64x32xf32 @ - - x -"), ("2x32x32x32xf32 @ - - - -",), _conv()),
    Case("convolution", "channels out split", "stablehlo.convolution",
         ("2x32x32x64xf32 @ - - - -", "3x3x64x32xf32 @ - - - x"), ("2x32x32x32xf32 @ - - - x",), _conv()),
    Case("convolution", "depthwise, channels split", "stablehlo.convolution",
         ("2x32x32x64xf32 @ - - - x", "3x3x1x64xf32 @ - - - x"), ("2x32x32x64xf32 @ - - - x",), _conv(groups=64)),
    Case("convolution", "gradient of the weights, batch split", "stablehlo.convolution",
         ("16x32x32x16xf32 @ x - - -", "16x32x32x32xf32 @ x - - -"), ("3x3x16x32xf32 @ - - - -",),
         _conv("[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]")),
    Case("convolution", "gradient of the weights, rows split", "stablehlo.convolution",
         ("4x64x64x16xf32 @ - x - -", "4x64x64x32xf32 @ - x - -"), ("3x3x16x32xf32 @ - - - -",),
         _conv("[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]")),
    # windows
    Case("windows", "pooling, rows split", "stablehlo.reduce_window", ("2x64x64x16xf32 @ - x - -", "f32 @"),
         ("2x32x32x16xf32 @ - x - -",), _POOL, _body("maximum")),
    Case("windows", "smoothing, rows split", "stablehlo.reduce_window", ("2x64x64x16xf32 @ - x - -", "f32 @"),
         ("2x64x64x16xf32 @ - x - -",), _SMOOTH, _body("maximum")),
    Case("windows", "running sum along the split", "stablehlo.reduce_window", (f"{_M} @ x -", "f32 @ : zero"),
         (f"{_M} @ x -",), _window((1024, 1), (1, 1), "[[1023, 0], [0, 0]]"), _body("add")),
    Case("windows", "gradient of pooling, rows split", "stablehlo.select_and_scatter",
         ("2x64x64x16xf32 @ - x - -", "2x32x32x16xf32 @ - x - -", "f32 @ : zero"), ("2x64x64x16xf32 @ - x - -",), _POOL,
         f"{_comparing('GE')}, {_body('add')}"),
    Case("windows", "gradient of overlapping pooling, rows split", "stablehlo.select_and_scatter",
         ("2x64x64x16xf32 @ - x - -", "2x64x64x16xf32 @ - x - -", "f32 @ : zero"), ("2x64x64x16xf32 @ - x - -",),
         _SMOOTH, f"{_comparing('GE')}, {_body('add')}"),
    # reduction
    Case("reduction", "sum along the split", "stablehlo.reduce", (f"{_M} @ x -", "f32 @ : zero"), ("1024xf32 @ -",),
         "dimensions = array<i64: 0>", _body("add")),
    Case("reduction", "the same, result split", "stablehlo.reduce", (f"{_M} @ x -", "f32 @ : zero"), ("1024xf32 @ x",),
         "dimensions = array<i64: 0>", _body("add")),
    Case("reduction", "maximum along the uneven split", "stablehlo.reduce", ("1021x1024xf32 @ x -", "f32 @"),
         ("1024xf32 @ -",), "dimensions = array<i64: 0>", _body("maximum")),
    Case("reduction", "position of the maximum", "stablehlo.reduce",
         (f"{_M} @ x -", "1024x1024xi32 @ x - : bits", "f32 @ : lowest", "i32 @ : zero"),
         ("1024xf32 @ -", "1024xi32 @ -"), "dimensions = array<i64: 0>", _ARGMAX),
    Case("scan", "running sum, rows independent", "chlo.scan", (f"{_M} @ - x", "1024xf32 @ x"),
         (f"{_M} @ - x", "1024xf32 @ x"), _SCANNED, _SCAN),
    Case("scan", "running sum along the split", "chlo.scan", (f"{_M} @ x -", "1024xf32 @ -"),
         (f"{_M} @ x -", "1024xf32 @ -"), _SCANNED, _SCAN),
    # gather and scatter
    Case("gather", "embedding, vocabulary split", "stablehlo.gather",
         ("8192x512xf32 @ x -", "1024x1xi32 @ - - : below 8192"),
         ("1024x512xf32 @ - -",), _ROWS),
    Case("gather", "embedding, vocabulary and batch split", "stablehlo.gather",
         ("8192x512xf32 @ x -", "1024x1xi32 @ x - : below 8192"), ("1024x512xf32 @ x -",), _ROWS),
    Case("gather", "embedding, features split", "stablehlo.gather",
         ("8192x512xf32 @ - x", "1024x1xi32 @ - - : below 8192"),
         ("1024x512xf32 @ - x",), _ROWS),
    Case("gather", "along an axis, batch split", "stablehlo.gather",
         (f"{_M} @ x -", "1024x64x1xi32 @ x - - : below 1024"),
         ("1024x64xf32 @ x -",), _ALONG),
    Case("gather", "along the split", "stablehlo.gather", (f"{_M} @ - x", "1024x64x1xi32 @ - - - : below 1024"),
         ("1024x64xf32 @ - -",), _ALONG),
    Case("scatter", "gradient of an embedding, batch split", "stablehlo.scatter",
         ("8192x512xf32 @ - -", "1024x1xi32 @ x - : below 8192", "1024x512xf32 @ x -"), ("8192x512xf32 @ - -",),
         _ADD_ROWS.format("false"), _body("add")),
    Case("scatter", "the same, vocabulary split", "stablehlo.scatter",
         ("8192x512xf32 @ x -", "1024x1xi32 @ - - : below 8192", "1024x512xf32 @ - -"), ("8192x512xf32 @ x -",),
         _ADD_ROWS.format("false"), _body("add")),
    Case("scatter", "the same, batch and vocabulary split", "stablehlo.scatter",
         ("8192x512xf32 @ x -", "1024x1xi32 @ x - : below 8192", "1024x512xf32 @ x -"), ("8192x512xf32 @ x -",),
         _ADD_ROWS.format("false"), _body("add")),
    Case("scatter", "rows replaced, split", "stablehlo.scatter",
         ("8192x512xf32 @ x -", "1024x1xi32 @ - - : distinct 8192", "1024x512xf32 @ - -"), ("8192x512xf32 @ x -",),
         _ADD_ROWS.format("true"), _body("set")),
    # slices, static and dynamic
    Case("slicing", "all but the first row", "stablehlo.slice", (f"{_M} @ x -",), ("1023x1024xf32 @ x -",),
         _slice((1, 0), (1024, 1024))),
    Case("slicing", "half along the split", "stablehlo.slice", (f"{_M} @ x -",), ("512x1024xf32 @ x -",),
         _slice((0, 0), (512, 1024))),
    Case("slicing", "second half along the split", "stablehlo.slice", (f"{_M} @ x -",), ("512x1024xf32 @ x -",),
         _slice((512, 0), (1024, 1024))),
    Case("slicing", "every second along the split", "stablehlo.slice", (f"{_M} @ x -",), ("512x1024xf32 @ x -",),
         _slice((0, 0), (1024, 1024), (2, 1))),
    Case("slicing", "the last row", "stablehlo.slice", (f"{_M} @ x -",), ("1x1024xf32 @ - -",),
         _slice((1023, 0), (1024, 1024))),
    Case("slicing", "a row in front", "stablehlo.pad", (f"{_M} @ x -", "f32 @"), ("1025x1024xf32 @ x -",), _pad(1, 0)),
    Case("slicing", "padded to twice the size", "stablehlo.pad", (f"{_M} @ x -", "f32 @"), ("2048x1024xf32 @ x -",),
         _pad(0, 1024)),
    Case("slicing", "dilated", "stablehlo.pad", (f"{_M} @ x -", "f32 @"), ("2047x1024xf32 @ x -",), _pad(0, 0, 1)),
    Case("slicing", "two equal parts joined along the split", "stablehlo.concatenate", (f"{_M} @ x -", f"{_M} @ x -"),
         ("2048x1024xf32 @ x -",), "dimension = 0 : i64"),
    Case("slicing", "a row joined to many", "stablehlo.concatenate", ("1x1024xf32 @ - -", f"{_M} @ x -"),
         ("1025x1024xf32 @ x -",), "dimension = 0 : i64"),
    Case("slicing", "reversed along the split", "stablehlo.reverse", (f"{_M} @ x -",), (f"{_M} @ x -",),
         "dimensions = array<i64: 0>"),
    Case("dynamic_slicing", "some rows out of split ones", "stablehlo.dynamic_slice",
         (f"{_M} @ x -", "i32 @ : below 900", "i32 @ : zero"), ("64x1024xf32 @ - -",),
         "slice_sizes = array<i64: 64, 1024>"),
    Case("dynamic_slicing", "half of the rows, split", "stablehlo.dynamic_slice",
         (f"{_M} @ x -", "i32 @ : below 500", "i32 @ : zero"), ("512x1024xf32 @ x -",),
         "slice_sizes = array<i64: 512, 1024>"),
    Case("dynamic_slicing", "one row of a cache, sequence split", "stablehlo.dynamic_update_slice",
         ("16x1024x512xf32 @ - x -", "16x1x512xf32 @ - - -", "i32 @ : zero", "i32 @ : below 1024", "i32 @ : zero"),
         ("16x1024x512xf32 @ - x -",)),
    Case("dynamic_slicing", "one row of a cache, batch split", "stablehlo.dynamic_update_slice",
         ("16x1024x512xf32 @ x - -", "16x1x512xf32 @ x - -", "i32 @ : zero", "i32 @ : below 1024", "i32 @ : zero"),
         ("16x1024x512xf32 @ x - -",)),
    Case("dynamic_slicing", "half of a cache, sequence split", "stablehlo.dynamic_update_slice",
         ("16x1024x512xf32 @ - x -", "16x512x512xf32 @ - x -", "i32 @ : zero", "i32 @ : below 500", "i32 @ : zero"),
         ("16x1024x512xf32 @ - x -",)),
    # sorting, linear algebra and the rest
    Case("sorting", "sort, batch split", "stablehlo.sort", (f"{_M} @ x -",), (f"{_M} @ x -",),
         "dimension = 1 : i64, is_stable = true", _comparing("LT")),
    Case("sorting", "sort along the split", "stablehlo.sort", (f"{_M} @ x -",), (f"{_M} @ x -",),
         "dimension = 0 : i64, is_stable = true", _comparing("LT")),
    Case("sorting", "sort along the split, nothing else", "stablehlo.sort", ("65536xf32 @ x",), ("65536xf32 @ x",),
         "dimension = 0 : i64, is_stable = true", _comparing("LT")),
    Case("sorting", "top 8 along the split", "chlo.top_k", ("64x32768xf32 @ - x",),
         ("64x8xf32 @ - -", "64x8xi32 @ - -"), "k = 8 : i64"),
    Case("linear_algebra", "fft, batch split", "stablehlo.fft", ("256x512xcomplex<f32> @ x -",),
         ("256x512xcomplex<f32> @ x -",), _FFT),
    Case("linear_algebra", "fft along the split", "stablehlo.fft", ("256x512xcomplex<f32> @ - x",),
         ("256x512xcomplex<f32> @ - x",), _FFT),
    Case("linear_algebra", "cholesky, batch split", "stablehlo.cholesky", ("16x128x128xf32 @ x - - : definite",),
         ("16x128x128xf32 @ x - -",), "lower = true"),
    Case("linear_algebra", "cholesky, matrices split", "stablehlo.cholesky", ("16x128x128xf32 @ - x - : definite",),
         ("16x128x128xf32 @ - x -",), "lower = true"),
    Case("linear_algebra", "triangular_solve, right-hand sides split", "stablehlo.triangular_solve",
         ("32x32xf32 @ - - : solvable", "32x1024xf32 @ - x"), ("32x1024xf32 @ - x",), _SOLVE),
    Case("normalization", "batch_norm_training, batch split", "stablehlo.batch_norm_training",
         ("32x16x16x64xf32 @ x - - -", "64xf32 @ -", "64xf32 @ -"),
         ("32x16x16x64xf32 @ x - - -", "64xf32 @ -", "64xf32 @ -"), _NORM),
    Case("normalization", "batch_norm_grad, batch split", "stablehlo.batch_norm_grad",
         ("32x16x16x64xf32 @ x - - -", "64xf32 @ -", "64xf32 @ -", "64xf32 @ - : positive",
          "32x16x16x64xf32 @ x - - -"), ("32x16x16x64xf32 @ x - - -", "64xf32 @ -", "64xf32 @ -"), _NORM),
    Case("normalization", "batch_norm_inference, batch split", "stablehlo.batch_norm_inference",
         ("32x16x16x64xf32 @ x - - -", "64xf32 @ -", "64xf32 @ -", "64xf32 @ -", "64xf32 @ - : positive"),
         ("32x16x16x64xf32 @ x - - -",), _NORM),
    Case("random", "rng_bit_generator, bits split", "stablehlo.rng_bit_generator", ("2xui64 @ - : bits",),
         ("2xui64 @ -", "1024x1024xui32 @ x -"), "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>"),
)  # fmt: skip
"""In the order of the table."""
