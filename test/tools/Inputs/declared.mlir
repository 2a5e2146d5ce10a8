// A function without a body, which Shardy's passes do not expect.
func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32>
