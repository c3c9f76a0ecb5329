package interpreter

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/graph"
)

// forward is the kernel of every op of the forward pass that the interpreter runs; views need none.
var forward = map[graph.Kind]gpu.Kernel{
	graph.OpClone:              gpu.Copy,
	graph.OpToCopy:             gpu.Copy,
	graph.OpCat:                gpu.Cat,
	graph.OpStack:              gpu.Stack,
	graph.OpPad:                gpu.Pad,
	graph.OpAdd:                gpu.Add,
	graph.OpSub:                gpu.Sub,
	graph.OpMul:                gpu.Mul,
	graph.OpAddScalar:          gpu.AddScalar,
	graph.OpMulScalar:          gpu.MulScalar,
	graph.OpDivScalar:          gpu.DivScalar,
	graph.OpPowScalar:          gpu.PowScalar,
	graph.OpNeg:                gpu.Neg,
	graph.OpRsqrt:              gpu.Rsqrt,
	graph.OpTanh:               gpu.Tanh,
	graph.OpSigmoid:            gpu.Sigmoid,
	graph.OpSilu:               gpu.Silu,
	graph.OpRelu:               gpu.Relu,
	graph.OpGelu:               gpu.Gelu,
	graph.OpDropout:            gpu.Dropout,
	graph.OpMean:               gpu.Mean,
	graph.OpLayerNorm:          gpu.LayerNorm,
	graph.OpRMSNorm:            gpu.RMSNorm,
	graph.OpSoftmax:            gpu.Softmax,
	graph.OpLogSoftmax:         gpu.LogSoftmax,
	graph.OpNLLLoss:            gpu.NLLLoss,
	graph.OpMSELoss:            gpu.MSELoss,
	graph.OpMM:                 gpu.MatMul,
	graph.OpBMM:                gpu.MatMul,
	graph.OpAddMM:              gpu.AddMatMul,
	graph.OpBMMAdd:             gpu.AddMatMul,
	graph.OpConv2D:             gpu.Conv2D,
	graph.OpFlashAttention:     gpu.FlashAttention,
	graph.OpEfficientAttention: gpu.EfficientAttention,
	graph.OpEmbedding:          gpu.Embedding,
}

// forwardKernel is an op's kernel, or "" for a view. A plain op's is named by what it computes.
func forwardKernel(g *graph.Graph, op *graph.Op) gpu.Kernel {
	switch {
	case op.Row().Work == graph.Free:
		return ""
	case op.Kind == graph.OpPlain:
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
	reads  []graph.Slot
}

// backward are the steps that make new tensors, by their ATen name, with a result for each input of the op. Elementwise
// steps stand in elementwise instead; views, sums to a shape, casts and matrix products are the same for all ops: see
// node.step.
var backward = map[string][]result{
	"aten.native_dropout_backward": {{gpu.DropoutBackward, []graph.Slot{graph.G0, graph.O1}}},
	"aten.slice_backward":          {{gpu.SliceBackward, []graph.Slot{graph.G0}}},
	"aten.select_backward":         {{gpu.SelectBackward, []graph.Slot{graph.G0}}},
	"aten.constant_pad_nd":         {{gpu.PadBackward, []graph.Slot{graph.G0}}},
	"aten.native_layer_norm_backward": {
		{gpu.LayerNormInput, []graph.Slot{graph.G0, graph.I0, graph.O1, graph.O2, graph.I1}},
		{gpu.LayerNormWeight, []graph.Slot{graph.G0, graph.I0, graph.O1, graph.O2}},
		{gpu.LayerNormBias, []graph.Slot{graph.G0}},
	},
	"aten._fused_rms_norm_backward": {
		{gpu.RMSNormInput, []graph.Slot{graph.G0, graph.I0, graph.O1, graph.I1}},
		{gpu.RMSNormWeight, []graph.Slot{graph.G0, graph.I0, graph.O1}},
	},
	"aten._softmax_backward_data":     {{gpu.SoftmaxBackward, []graph.Slot{graph.G0, graph.O0}}},
	"aten._log_softmax_backward_data": {{gpu.LogSoftmaxBackward, []graph.Slot{graph.G0, graph.O0}}},
	"aten.nll_loss_backward":          {{gpu.NLLLossBackward, []graph.Slot{graph.G0, graph.I1, graph.O1}}},
	"aten.mse_loss_backward":          {{gpu.MSELossBackward, []graph.Slot{graph.G0, graph.I0, graph.I1}}},
	"aten.convolution_backward": {
		{gpu.Conv2DInput, []graph.Slot{graph.G0, graph.I1}},
		{gpu.Conv2DWeight, []graph.Slot{graph.G0, graph.I0}},
		{gpu.Conv2DBias, []graph.Slot{graph.G0}},
	},
	"aten.embedding_dense_backward": {{gpu.EmbeddingBackward, []graph.Slot{graph.G0, graph.I1}}},
}

// joint are the backward kernels that make all gradients of a node in one launch, behind its last step.
var joint = map[string]result{
	"aten._scaled_dot_product_flash_attention_backward": {
		gpu.FlashAttentionBackward, []graph.Slot{graph.G0, graph.I0, graph.I1, graph.I2, graph.NoSlot, graph.O0, graph.O1, graph.O2},
	},
	"aten._scaled_dot_product_efficient_attention_backward": {
		gpu.EfficientAttentionBackward, []graph.Slot{graph.G0, graph.I0, graph.I1, graph.I2, graph.I3, graph.O0, graph.O1, graph.O2, graph.O3},
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
	case graph.OpMulScalar, graph.OpPowScalar:
		return n.op.Scalar
	case graph.OpRsqrt:
		return -0.5
	}
	fail("the interpreter does not know by what %s multiplies in backward", n.op.Row().Aten)
	return 0
}

// divisor is how many elements a mean is of.
func divisor(n *node) float64 {
	if n.op.Kind == graph.OpMean {
		return float64(n.shape(graph.I0).At(-1))
	}
	return n.op.Scalar
}

// exponent is n−1 of a power, 3 of a reciprocal root y, whose derivative has y³.
func exponent(n *node) float64 {
	if n.op.Kind == graph.OpRsqrt {
		return 3
	}
	return n.op.Scalar - 1
}

// backwardKernel is the kernel of a step that makes a new tensor.
func backwardKernel(s *graph.Call) (gpu.Kernel, bool) {
	if e, ok := elementwise[s.Aten]; ok {
		if e.scalar != "" && s.Args[1] == graph.NoSlot {
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
func missing(g *graph.Graph, d gpu.Device) []string {
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
			if op.Kind == graph.OpPlain {
				add(g.Storages[g.Tensors[g.Outputs(op)[0]].Storage].Name)
			} else {
				add(row.Aten)
			}
		}
		switch op.Kind {
		case graph.OpMulScalar, graph.OpAddScalar, graph.OpDivScalar, graph.OpPowScalar:
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
