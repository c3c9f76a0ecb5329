package class

import "ckptplan/internal/model/spec"

var qwen3MoE = classifying(Class{
	Arch: "qwen3-moe", Heads: []string{"Qwen3MoeForCausalLM"},
	Modules: Concat(attnProjections, []string{"self_attn.", "mlp.experts.", "mlp.", ""}),
	Spec: spec.Spec{
		L: 24, H: 2048, Heads: 32, KVHeads: 4, FFN: 6144, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre", QKNorm: true,
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, MoE: &spec.MoE{Experts: 128, TopK: 8, FFN: 768, SparseStep: 1},
	},
	Keys:      Concat(sizeKeys, groupKeys, tiedKey, attnBias, slidingKeys, sparseKeys),
	Only:      moeOnly,
	Forward:   Forward.mixtral,
	Linears:   attnLinears,
	Targets:   qvTargets,
	LinearsOf: qwen3MoELinears,
	Derive:    qwen3MoEWindow,
	encode:    qwenToConfig,
	parts:     attentionParts.with(parts{"mlp": module("mlp")}),
}, forSequences, forTokens)

// sparseKeys are the keys of experts beside dense layers.
var sparseKeys = []hfKey{
	{"num_local_experts", "moe.experts"},
	{"num_experts", "moe.experts"},
	{"num_experts_per_tok", "moe.top_k"},
	{"moe_intermediate_size", "moe.ffn"},
	{"decoder_sparse_step", "moe.sparse_step"},
	{"mlp_only_layers", "moe.dense_layers"},
	{"norm_topk_prob", "moe.norm_top_k"},
}

// qwen3MoEWindow: all layers slide.
func qwen3MoEWindow(c *Config, s *spec.Spec) { qwenSlides(c, s) }

// qwen3MoELinears: a dense layer has linear layers, the experts of the others are one tensor.
func qwen3MoELinears(s *spec.Spec) []string {
	if s.MoE != nil && (len(s.MoE.DenseLayers) > 0 || s.MoE.SparseStep > 1) {
		return gatedLinears
	}
	return attnLinears
}
