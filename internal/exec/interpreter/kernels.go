package interpreter

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
)

// forward is the kernel of every op of the forward pass that the interpreter runs; views need none.
var forward = map[model.Kind]gpu.Kernel{
	model.OpClone:              gpu.Copy,
	model.OpToCopy:             gpu.Copy,
	model.OpCat:                gpu.Cat,
	model.OpStack:              gpu.Stack,
	model.OpPad:                gpu.Pad,
	model.OpAdd:                gpu.Add,
	model.OpSub:                gpu.Sub,
	model.OpMul:                gpu.Mul,
	model.OpAddScalar:          gpu.AddScalar,
	model.OpMulScalar:          gpu.MulScalar,
	model.OpDivScalar:          gpu.DivScalar,
	model.OpPowScalar:          gpu.PowScalar,
	model.OpNeg:                gpu.Neg,
	model.OpRsqrt:              gpu.Rsqrt,
	model.OpTanh:               gpu.Tanh,
	model.OpSigmoid:            gpu.Sigmoid,
	model.OpSilu:               gpu.Silu,
	model.OpRelu:               gpu.Relu,
	model.OpGelu:               gpu.Gelu,
	model.OpDropout:            gpu.Dropout,
	model.OpMean:               gpu.Mean,
	model.OpLayerNorm:          gpu.LayerNorm,
	model.OpRMSNorm:            gpu.RMSNorm,
	model.OpSoftmax:            gpu.Softmax,
	model.OpLogSoftmax:         gpu.LogSoftmax,
	model.OpNLLLoss:            gpu.NLLLoss,
	model.OpMSELoss:            gpu.MSELoss,
	model.OpMM:                 gpu.MatMul,
	model.OpBMM:                gpu.MatMul,
	model.OpAddMM:              gpu.AddMatMul,
	model.OpBMMAdd:             gpu.AddMatMul,
	model.OpConv2D:             gpu.Conv2D,
	model.OpFlashAttention:     gpu.FlashAttention,
	model.OpEfficientAttention: gpu.EfficientAttention,
	model.OpEmbedding:          gpu.Embedding,
}

// forwardKernel is an op's kernel, or "" for a view. A plain op's is named by what it computes.
func forwardKernel(g *model.Graph, op *model.Op) gpu.Kernel {
	switch {
	case op.Row().Work == model.Free:
		return ""
	case op.Kind == model.OpPlain:
		return gpu.Plain(g.Storages[g.Tensors[g.Outputs(op)[0]].Storage].Name)
	case forward[op.Kind] == "":
		return gpu.Kernel(op.Row().Aten)
	}
	return forward[op.Kind]
}

// result is how one gradient of a backward node is made: by which kernel, from which tensors. Only those that the op's
// row saves can be read.
type result struct {
	kernel gpu.Kernel
	reads  []model.Slot
}

// backward are the steps that make new tensors, by their ATen name, with a result for each input of the op. Elementwise
// steps stand in elementwise instead; views, sums to a shape, casts and matrix products are the same for all ops: see
// node.step.
var backward = map[string][]result{
	"aten.native_dropout_backward": {{gpu.DropoutBackward, []model.Slot{model.G0, model.O1}}},
	"aten.slice_backward":          {{gpu.SliceBackward, []model.Slot{model.G0}}},
	"aten.select_backward":         {{gpu.SelectBackward, []model.Slot{model.G0}}},
	"aten.constant_pad_nd":         {{gpu.PadBackward, []model.Slot{model.G0}}},
	"aten.native_layer_norm_backward": {
		{gpu.LayerNormInput, []model.Slot{model.G0, model.I0, model.O1, model.O2, model.I1}},
		{gpu.LayerNormWeight, []model.Slot{model.G0, model.I0, model.O1, model.O2}},
		{gpu.LayerNormBias, []model.Slot{model.G0}},
	},
	"aten._fused_rms_norm_backward": {
		{gpu.RMSNormInput, []model.Slot{model.G0, model.I0, model.O1, model.I1}},
		{gpu.RMSNormWeight, []model.Slot{model.G0, model.I0, model.O1}},
	},
	"aten._softmax_backward_data":     {{gpu.SoftmaxBackward, []model.Slot{model.G0, model.O0}}},
	"aten._log_softmax_backward_data": {{gpu.LogSoftmaxBackward, []model.Slot{model.G0, model.O0}}},
	"aten.nll_loss_backward":          {{gpu.NLLLossBackward, []model.Slot{model.G0, model.I1, model.O1}}},
	"aten.mse_loss_backward":          {{gpu.MSELossBackward, []model.Slot{model.G0, model.I0, model.I1}}},
	"aten.convolution_backward": {
		{gpu.Conv2DInput, []model.Slot{model.G0, model.I1}},
		{gpu.Conv2DWeight, []model.Slot{model.G0, model.I0}},
		{gpu.Conv2DBias, []model.Slot{model.G0}},
	},
	"aten.embedding_dense_backward": {{gpu.EmbeddingBackward, []model.Slot{model.G0, model.I1}}},
}

// joint are the backward kernels that make all gradients of a node in one launch, behind its last step.
var joint = map[string]result{
	"aten._scaled_dot_product_flash_attention_backward": {
		gpu.FlashAttentionBackward, []model.Slot{model.G0, model.I0, model.I1, model.I2, model.NoSlot, model.O0, model.O1, model.O2},
	},
	"aten._scaled_dot_product_efficient_attention_backward": {
		gpu.EfficientAttentionBackward, []model.Slot{model.G0, model.I0, model.I1, model.I2, model.I3, model.O0, model.O1, model.O2, model.O3},
	},
}

// elementwise are steps over all of their arguments. Some have a second form with a number in the place of the second
// argument.
var elementwise = map[string]struct {
	kernel gpu.Kernel
	scalar gpu.Kernel
	number func(n *node) float64
}{
	"aten.mul":                {gpu.Mul, gpu.MulScalar, factor},
	"aten.div":                {gpu.Div, gpu.DivScalar, divisor},
	"aten.pow":                {"", gpu.PowScalar, exponent},
	"aten.neg":                {kernel: gpu.Neg},
	"aten.tanh_backward":      {kernel: gpu.TanhBackward},
	"aten.sigmoid_backward":   {kernel: gpu.SigmoidBackward},
	"aten.silu_backward":      {kernel: gpu.SiluBackward},
	"aten.gelu_backward":      {kernel: gpu.GeluBackward},
	"aten.threshold_backward": {kernel: gpu.ReluBackward},
}

// factor is d(x·s) = s, d(xⁿ) = n·xⁿ⁻¹, d(x^−½) = −½·(x^−½)³.
func factor(n *node) float64 {
	switch n.op.Kind {
	case model.OpMulScalar, model.OpPowScalar:
		return n.op.Scalar
	case model.OpRsqrt:
		return -0.5
	}
	fail("the interpreter does not know by what %s multiplies in backward", n.op.Row().Aten)
	return 0
}

// divisor is how many elements a mean is of.
func divisor(n *node) float64 {
	if n.op.Kind == model.OpMean {
		return float64(n.shape(model.I0).At(-1))
	}
	return n.op.Scalar
}

// exponent is n−1 of a power, 3 of a reciprocal root y, whose derivative has y³.
func exponent(n *node) float64 {
	if n.op.Kind == model.OpRsqrt {
		return 3
	}
	return n.op.Scalar - 1
}

// backwardKernel is the kernel of a step that makes a new tensor.
func backwardKernel(s *model.Call) (gpu.Kernel, bool) {
	if e, ok := elementwise[s.Aten]; ok {
		if e.scalar != "" && s.Args[1] == model.NoSlot {
			return e.scalar, true
		}
		return e.kernel, e.kernel != ""
	}
	if j, ok := joint[s.Aten]; ok {
		return j.kernel, true
	}
	if k := s.Out.Input(); k >= 0 && k < len(backward[s.Aten]) {
		return backward[s.Aten][k].kernel, true
	}
	return "", false
}

// missing names the ops of a graph for which the device has no kernel.
func missing(g *model.Graph, d gpu.Device) []string {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for i := range g.Ops {
		op := &g.Ops[i]
		row := op.Row()
		if k := forwardKernel(g, op); k != "" && !d.Has(k) {
			if op.Kind == model.OpPlain {
				add(g.Storages[g.Tensors[g.Outputs(op)[0]].Storage].Name)
			} else {
				add(row.Aten)
			}
		}
		switch op.Kind {
		case model.OpMulScalar, model.OpAddScalar, model.OpDivScalar, model.OpPowScalar:
			if op.Scalar == 0 {
				add("the number of " + row.Aten)
			}
		}
		for k := range row.Back {
			s := &row.Back[k]
			if op.Needs == 0 || !makesNew(s.How) {
				continue
			}
			if k, ok := backwardKernel(s); !ok || !d.Has(k) {
				add(fmt.Sprintf("%s (backward of %s)", s.Aten, row.Aten))
			}
		}
	}
	return names
}
