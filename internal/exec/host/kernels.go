package host

import (
	"math"

	"ckptplan/internal/exec/random"
	"ckptplan/internal/gpu"
)

// random is the generator that the launch draws from.
func (c *call) random() random.Stream { return random.Stream{Key: c.Key, Offset: c.Args.Offset} }

// kernels has a row for every kernel.
var kernels = map[gpu.Kernel]func(c *call){
	gpu.Copy:      func(c *call) { c.out[0].copyFrom(c.in[0]) },
	gpu.Fill:      func(c *call) { c.out[0].fill(float32(c.Scalar)) },
	gpu.Sum:       func(c *call) { c.out[0].SetReals(reduced(c.in[0], c.out[0].Shape)) },
	gpu.Cat:       cat,
	gpu.Stack:     stack,
	gpu.Pad:       pad,
	gpu.Add:       elementwise(func(x, y float32) float32 { return x + y }),
	gpu.Sub:       elementwise(func(x, y float32) float32 { return x - y }),
	gpu.Mul:       elementwise(func(x, y float32) float32 { return x * y }),
	gpu.Div:       elementwise(func(x, y float32) float32 { return x / y }),
	gpu.AddScalar: withScalar(func(x, s float32) float32 { return x + s }),
	gpu.MulScalar: withScalar(func(x, s float32) float32 { return x * s }),
	gpu.DivScalar: withScalar(func(x, s float32) float32 { return x / s }),
	gpu.PowScalar: withScalar(power),
	gpu.Neg:       unary(func(x float64) float64 { return -x }),
	gpu.Rsqrt:     unary(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	gpu.Tanh:      unary(math.Tanh),
	gpu.Sigmoid:   unary(sigmoid),
	gpu.Silu:      unary(func(x float64) float64 { return x * sigmoid(x) }),
	gpu.Relu:      unary(func(x float64) float64 { return math.Max(x, 0) }),
	gpu.Gelu:      gelu,

	gpu.Dropout:    dropout,
	gpu.Mean:       mean,
	gpu.LayerNorm:  layerNorm,
	gpu.RMSNorm:    rmsNorm,
	gpu.Softmax:    func(c *call) { c.out[0].SetReals(softmaxRows(c.in[0].Reals(), c.in[0].Shape.At(-1))) },
	gpu.LogSoftmax: func(c *call) { c.out[0].SetReals(logSoftmaxRows(c.in[0].Reals(), c.in[0].Shape.At(-1))) },
	gpu.NLLLoss:    nllLoss,
	gpu.MSELoss:    mseLoss,

	gpu.MatMul: func(c *call) { c.out[0].SetReals(matmul(c.in[0], c.in[1])) },
	gpu.AddMatMul: func(c *call) {
		c.out[0].SetReals(plus(matmul(c.in[1], c.in[2]), c.arg(0)))
	},
	gpu.Conv2D:             conv2D,
	gpu.FlashAttention:     flashAttention,
	gpu.EfficientAttention: efficientAttention,
	gpu.Embedding:          embedding,

	gpu.TanhBackward:       fromOutput(func(y float64) float64 { return 1 - y*y }),
	gpu.SigmoidBackward:    fromOutput(func(y float64) float64 { return y * (1 - y) }),
	gpu.SiluBackward:       fromOutput(func(x float64) float64 { s := sigmoid(x); return s * (1 + x*(1-s)) }),
	gpu.ReluBackward:       fromOutput(step),
	gpu.GeluBackward:       geluBackward,
	gpu.DropoutBackward:    dropoutBackward,
	gpu.SliceBackward:      sliceBackward,
	gpu.SelectBackward:     selectBackward,
	gpu.PadBackward:        padBackward,
	gpu.LayerNormInput:     normInput(true),
	gpu.LayerNormWeight:    normWeight(true),
	gpu.LayerNormBias:      layerNormBias,
	gpu.RMSNormInput:       normInput(false),
	gpu.RMSNormWeight:      normWeight(false),
	gpu.SoftmaxBackward:    softmaxBackward,
	gpu.LogSoftmaxBackward: logSoftmaxBackward,
	gpu.NLLLossBackward:    nllLossBackward,
	gpu.MSELossBackward:    mseLossBackward,
	gpu.Conv2DInput:        conv2DInput,
	gpu.Conv2DWeight:       conv2DWeight,
	gpu.Conv2DBias:         conv2DBias,
	gpu.EmbeddingBackward:  embeddingBackward,

	gpu.FlashAttentionBackward:     flashAttentionBackward,
	gpu.EfficientAttentionBackward: efficientAttentionBackward,

	gpu.SGD:   sgd,
	gpu.AdamW: adamW,
}
