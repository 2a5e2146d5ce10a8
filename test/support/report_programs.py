"""Programs whose reports are tested."""

from __future__ import annotations

PLAIN = """module @plain {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func public @main(
      %a: tensor<30x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %w: tensor<64x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<30x48xf32> {
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
      : (tensor<30x64xf32>, tensor<64x48xf32>) -> tensor<30x48xf32>
    %1 = stablehlo.tanh %0 : tensor<30x48xf32>
    %2 = stablehlo.add %1, %1 : tensor<30x48xf32>
    return %2 : tensor<30x48xf32>
  }
}
"""

LOOP = """module @loop {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %w: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<64x64xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %next, %y : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}
"""

MARK = "hacked"
"""What hostile programs would write on the page, as an attribute of its root, if they could."""

_CODE = f"document.documentElement.dataset.{MARK} = 1"
HOSTILE_NAMES = (
    f"</script><script>{_CODE}</script>",
    f"<img src=x onerror='{_CODE}'>",
    f"'); {_CODE}; ('",
    f"{{{{data}}}}{{{{script}}}}\\u2028\\\\<!--<script>{_CODE}//",
    f"javascript:{_CODE}",
)


def hostile() -> str:
    """A program all of whose names are HTML or JavaScript: of itself, its axes, arguments, results and files."""
    quoted = [name.replace("\\", "\\\\").replace('"', '\\"') for name in HOSTILE_NAMES]
    axis, first, second, file, result = quoted
    sharding = f'#sdy.sharding<@mesh, [{{"{axis}"}}, {{}}]>'
    return f"""module @"{quoted[0]}" {{
  sdy.mesh @mesh = <["{axis}"=4]>
  func.func public @main(
      %a: tensor<8x8xf32> {{sdy.sharding = {sharding}, gspmd.name = "{first}"}},
      %w: tensor<8x8xf32> {{sdy.sharding = {sharding}, gspmd.name = "{second}"}})
      -> (tensor<8x8xf32> {{jax.result_info = "{result}"}}) {{
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("{file}":3:1)
    return %0 : tensor<8x8xf32>
  }}
}}
"""
