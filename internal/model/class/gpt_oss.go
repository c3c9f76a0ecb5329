package class

import (
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

var gptOss = classifying(Class{
	Arch: "gpt-oss", Own: []string{"norm", "activation"}, Heads: []string{"GptOssForCausalLM"}, Eager: true, KeepsWindow: true,
	Modules: Concat([]string{"self_attn.sinks"}, attnProjections, []string{"self_attn.", "mlp.router.", "mlp.", ""}),
	Spec: spec.Spec{
		L: 36, H: 2880, Heads: 64, KVHeads: 8, HeadDim: 64, FFN: 2880, Vocab: 201088, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, SlidingWindow: 128, Bias: spec.Bias{QKV: true, Out: true},
		MoE: &spec.MoE{Experts: 128, TopK: 4, SparseStep: 1},
	},
	Keys:      Concat(sizeKeys[:5], sizeKeys[6:], groupKeys, tiedKey, attnBias, typedKeys, mixtralKeys),
	Only:      moeOnly,
	varies:    []string{"moe.ffn"},
	Forward:   Forward.gptOss,
	Linears:   attnLinears,
	Targets:   qvTargets,
	Constants: build.Constants{RMSNormEps: 1e-5, RotaryBase: 150_000, Single: true},
	Derive:    mixtralConfig,
	Defaults:  slideBut(2),
	parts:     parts{"attn": module("self_attn"), "core": core("self_attn"), "norm1": attentionParts["norm1"], "mlp": module("mlp")},
}, forSequences, forTokens)

// gptOss is GptOssForCausalLM: sinks in attention, a router with a bias, and experts with biases and a clamped gate.
// Source: transformers/models/gpt_oss/modeling_gpt_oss.py.
func (b Forward) gptOss() {
	d := llamaClass()
	d.norm, d.rotate, d.mlp, d.sinks = Forward.olmoNorm, Forward.rotateHalves, Forward.gptOssMLP, true
	b.decoder(d)
}

// rotateHalves is _apply_rotary_emb on q and k:
//
//	first, second = x.chunk(2, -1); return cat((first * cos - second * sin, second * cos + first * sin), -1)
func (b Forward) rotateHalves(q, k, cos, sin graph.TensorID) (graph.TensorID, graph.TensorID) {
	c, s := b.Unsqueeze(cos, 1), b.Unsqueeze(sin, 1)
	rotate := func(x graph.TensorID) graph.TensorID {
		d := b.Tensor(x).Shape.At(-1)
		half := b.Split(x, -1, d/2, d/2)
		fc, ss := b.Mul(half[0], c), b.Mul(half[1], s)
		first := b.Elementwise(graph.OpSub, b.Tensor(fc).DType, fc, ss)
		sc, fs := b.Mul(half[1], c), b.Mul(half[0], s)
		return b.Cat(-1, first, b.Add(sc, fs))
	}
	rq := rotate(q)
	rk := rotate(k)
	b.Keep(q, k)
	return rq, rk
}

// gptOssMLP gives the experts' result. The layer's local that holds the attention weights is then set to the router's scores.
func (b Forward) gptOssMLP(p string, _ graph.OpID, x graph.TensorID) graph.TensorID {
	s := b.Spec
	shape := b.Tensor(x).Shape
	first := b.Next()
	tokens := b.Reshape(x, shape.Count()/shape.At(-1), shape.At(-1))
	n, k := b.Tensor(tokens).Shape.D[0], int64(s.MoE.TopK)
	logits := b.Linear(tokens, b.Weight(p+"router.weight", int64(s.MoE.Experts), int64(s.H)), b.Weight(p+"router.bias", int64(s.MoE.Experts)))
	dt := b.Tensor(logits).DType
	b.Emit(graph.OpTopK, graph.Attr{}, logits)
	top := b.Fresh(dt, graph.Shape(n, k), graph.Dims{})
	index := b.Fresh(dtype.I64, graph.Shape(n, k), graph.Dims{})
	weights := b.Softmax(top, dt)
	b.Keep(top)
	y := b.experts(p+"experts.", graph.None, tokens, index, weights, expertKind{biased: true, gate: Forward.clampedGate})
	out := b.Reshape(y, shape.D[:shape.N]...)
	b.Keep(x, logits, weights, index, b.Weights)
	b.Weights = weights
	b.Span("mlp", first)
	return out
}

// clampedGate takes gate and up from every other column:
//
//	gate = gate.clamp(max=limit); up = up.clamp(-limit, limit); return (up + 1) * (gate * sigmoid(gate * alpha))
func (b Forward) clampedGate(both graph.TensorID) graph.TensorID {
	gate, up := b.everyOther(both, 0), b.everyOther(both, 1)
	gate = b.Unary(graph.OpClampMax, gate)
	up = b.Unary(graph.OpClampBetween, up)
	glu := b.Mul(gate, b.Unary(graph.OpSigmoid, b.WithScalar(b.MulScalar(gate), 1.702)))
	out := b.Mul(b.WithScalar(b.AddScalar(up), 1), glu)
	b.Keep(gate, up, glu)
	return out
}
