package model

var qwen3MoE = class{
	arch: "qwen3-moe", heads: []string{"Qwen3MoeForCausalLM"},
	modules: concat(attnProjections, []string{"self_attn.", "mlp.experts.", "mlp.", ""}),
	spec: Spec{
		L: 24, H: 2048, Heads: 32, KVHeads: 4, FFN: 6144, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre", QKNorm: true,
		Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, MoE: &MoE{Experts: 128, TopK: 8, FFN: 768, SparseStep: 1},
	},
	keys: concat(sizeKeys, groupKeys, tiedKey, attnBias, slidingKeys, []hfKey{
		{"num_local_experts", "moe.experts"},
		{"num_experts", "moe.experts"},
		{"num_experts_per_tok", "moe.top_k"},
		{"moe_intermediate_size", "moe.ffn"},
		{"decoder_sparse_step", "moe.sparse_step"},
		{"mlp_only_layers", "moe.dense_layers"},
		{"norm_topk_prob", "moe.norm_top_k"},
	}),
	only:      moeOnly,
	forward:   forward.mixtral,
	linears:   attnLinears,
	targets:   qvTargets,
	linearsOf: qwen3MoELinears,
	derive:    qwen3MoEWindow,
	encode:    qwenToConfig,
	parts:     attentionParts.with(parts{"mlp": module("mlp")}),
}

// qwen3MoEWindow: all layers slide.
func qwen3MoEWindow(c *config, s *Spec) { qwenSlides(c, s) }

// qwen3MoELinears: a dense layer has linear layers, the experts of the others are one tensor.
func qwen3MoELinears(s *Spec) []string {
	if s.MoE != nil && (len(s.MoE.DenseLayers) > 0 || s.MoE.SparseStep > 1) {
		return gatedLinears
	}
	return attnLinears
}
