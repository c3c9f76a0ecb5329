package gpu

import "ckptplan/internal/model/graph"

// Kernel is the name of a kernel. Every device that can run a graph has a table with a row for each that the graph
// needs.
type Kernel string

// The kernels of forward and backward. Where two tensors are listed as arguments the shapes are broadcast to the
// result's; "rows" are rows of the last dimension.
const (
	Copy Kernel = "copy" // x → y: element by element in row-major order, converted to y's type
	Fill Kernel = "fill" // → y: Scalar everywhere
	Sum  Kernel = "sum"  // x → y: over the dimensions that are 1 in y

	Cat   Kernel = "cat"   // x… → y: side by side along dimension A
	Stack Kernel = "stack" // x… → y: along a new dimension A
	Pad   Kernel = "pad"   // x → y: zeros behind each row

	Add       Kernel = "add"
	Sub       Kernel = "sub"
	Mul       Kernel = "mul"
	Div       Kernel = "div"
	AddScalar Kernel = "add_scalar"
	MulScalar Kernel = "mul_scalar"
	DivScalar Kernel = "div_scalar"
	PowScalar Kernel = "pow_scalar" // small whole powers
	Neg       Kernel = "neg"
	Rsqrt     Kernel = "rsqrt"
	Tanh      Kernel = "tanh"
	Sigmoid   Kernel = "sigmoid"
	Silu      Kernel = "silu"
	Relu      Kernel = "relu"
	Gelu      Kernel = "gelu" // A = 1: tanh's approximation

	Dropout    Kernel = "dropout" // x → y, mask
	Mean       Kernel = "mean"    // of rows
	LayerNorm  Kernel = "layer_norm"
	RMSNorm    Kernel = "rms_norm"
	Softmax    Kernel = "softmax"
	LogSoftmax Kernel = "log_softmax"
	NLLLoss    Kernel = "nll_loss" // log p, class → loss, rows counted
	MSELoss    Kernel = "mse_loss"

	MatMul    Kernel = "matmul"     // a, b → a·b; batches of them with three dimensions
	AddMatMul Kernel = "add_matmul" // c, a, b → c + a·b
	Conv2D    Kernel = "conv2d"     // x, w, bias; patches that touch and do not overlap

	FlashAttention     Kernel = "flash_attention"     // q, k, v → context, logsumexp, generator's state; B ≠ 0: causal
	EfficientAttention Kernel = "efficient_attention" // q, k, v, bias → context, logsumexp, key, offset
	Embedding          Kernel = "embedding"           // table, ids

	// Backward. The first argument is the gradient that arrives, unless a row says otherwise.
	TanhBackward       Kernel = "tanh_backward"    // grad, y
	SigmoidBackward    Kernel = "sigmoid_backward" // grad, y
	SiluBackward       Kernel = "silu_backward"    // grad, x
	ReluBackward       Kernel = "relu_backward"    // grad, y
	GeluBackward       Kernel = "gelu_backward"    // grad, x
	DropoutBackward    Kernel = "dropout_backward" // grad, mask
	SliceBackward      Kernel = "slice_backward"   // A dimension, B start, C step
	SelectBackward     Kernel = "select_backward"  // A dimension, B index
	PadBackward        Kernel = "pad_backward"
	LayerNormInput     Kernel = "layer_norm_backward_input"  // grad, x, mean, rstd, γ or absent
	LayerNormWeight    Kernel = "layer_norm_backward_weight" // grad, x, mean, rstd
	LayerNormBias      Kernel = "layer_norm_backward_bias"   // grad
	RMSNormInput       Kernel = "rms_norm_backward_input"    // grad, x, rstd, γ
	RMSNormWeight      Kernel = "rms_norm_backward_weight"   // grad, x, rstd
	SoftmaxBackward    Kernel = "softmax_backward"           // grad, y
	LogSoftmaxBackward Kernel = "log_softmax_backward"       // grad, y
	NLLLossBackward    Kernel = "nll_loss_backward"          // grad, class, rows counted
	MSELossBackward    Kernel = "mse_loss_backward"          // grad, x, y
	Conv2DInput        Kernel = "conv2d_backward_input"      // grad, w
	Conv2DWeight       Kernel = "conv2d_backward_weight"     // grad, x
	Conv2DBias         Kernel = "conv2d_backward_bias"       // grad
	EmbeddingBackward  Kernel = "embedding_backward"         // grad, ids
	// grad, q, k, v, bias or absent, context, logsumexp, generator's state → the gradients of q, k, v and bias, absent
	// where they are not needed.
	FlashAttentionBackward     Kernel = "flash_attention_backward"
	EfficientAttentionBackward Kernel = "efficient_attention_backward"

	// Optimizers change their results in place.
	SGD   Kernel = "sgd"   // grad → parameter
	AdamW Kernel = "adamw" // grad → parameter, exp_avg, exp_avg_sq, step count
)

// Plain is the kernel of an op without gradient (positions, masks, rotary tables, shifted labels) by its ATen name.
func Plain(aten string) Kernel { return Kernel("plain " + aten) }

// Hyperparameters of the optimizers: PyTorch's defaults for AdamW.
const (
	LearningRate = 1e-3
	Beta1        = 0.9
	Beta2        = 0.999
	Epsilon      = 1e-8
	WeightDecay  = 0.01
)

// Args are what a kernel is launched with.
type Args struct {
	In, Out []Tensor
	// Attr, Scalar and Drop are the op's own plain arguments.
	Attr   graph.Attr
	Scalar float64
	Drop   float64
	// Key and Offset are the state of the random generator that Drop draws from.
	Key, Offset uint64
}
