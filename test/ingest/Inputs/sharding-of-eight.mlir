func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %arg0 {mhlo.sharding = "{devices=[8]<=[8]}"} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
