package model

import (
	"slices"
	"strings"

	"ckptplan/internal/nearest"
)

// class is a model class of Hugging Face transformers 5.12: the defaults of its configuration class, the keys of its
// config.json, and the settings that are modelled with one value only. The same row serves YAML specs of that arch.
// Rows torch-encoder and custom have no config.json.
type class struct {
	arch  string
	heads []string // values of `architectures` whose head and loss are modelled; the first is the default
	spec  Spec     // defaults; KVHeads and HeadDim 0: heads and H/heads; FFN 0: 4H
	keys  []hfKey
	only  []hfOnly
	// wide is true if an own FFN default of a YAML spec is 8H/3 rounded up to 256 (Llama's rule), not H·ffn/hidden.
	wide bool
	// eager is true if the class has no SDPA path.
	eager bool
	// own are the keys, norm and activation, of what the class writes itself and a spec cannot change: Gemma's RMSNorm
	// multiplies by 1 + weight in fp32, OLMo 2's by the weight before the cast, T5's leaves 16-bit input as it is, and
	// BLOOM's GELU is an autograd function.
	own []string
	// varies are keys of a YAML spec that may differ from the defaults although no config.json key sets them.
	varies []string
	// modules are the beginnings of the names of a layer's parameters in the order in which the class registers them, "" for
	// any other; nil: as forward meets them.
	modules []string
}

// hfKey names one key of a config.json and the keys of the spec that it sets. Of two names of one thing the first in the
// table counts: Hugging Face sets what is no field of the configuration class (the names in its attribute_map, n_embed)
// after the fields, so that it wins.
type hfKey struct{ name, spec string }

// hfOnly is a setting that changes the computation and is modelled with one value: "false", "0", "null" …
type hfOnly struct{ name, value string }

// hasHead is true for a class whose head and loss are modelled. Case does not matter: LLaMAForCausalLM was Llama's name
// before its release in transformers, and from_pretrained does not ask.
func (c *class) hasHead(name string) bool {
	return slices.ContainsFunc(c.heads, func(h string) bool { return strings.EqualFold(h, name) })
}

// classifies is true for a class with a head for labels, whose number decides on the loss.
func (c *class) classifies() bool {
	return slices.ContainsFunc(c.only, func(o hfOnly) bool { return o.name == "problem_type" })
}

func (c *class) modelType() string { return strings.ReplaceAll(c.arch, "-", "_") }

// classOf finds a class by arch or model_type; hyphens and underscores do not matter.
func classOf(name string) *class {
	name = nearest.Fold(name)
	for i := range classes {
		if classes[i].arch == name {
			return &classes[i]
		}
	}
	return nil
}

// archs are the accepted values of arch.
var archs = []string{
	"gpt2", "llama", "mistral", "qwen2", "qwen3", "gpt-neox", "opt", "bert", "roberta", "vit", "mixtral", "qwen3-moe", "phi", "phi3",
	"gemma", "gemma2", "olmo2", "starcoder2", "falcon", "bloom", "granite", "cohere", "t5", "torch-encoder", "custom",
}

// Archs are the names of the modelled classes, as in Spec.Arch.
func Archs() []string { return append([]string(nil), archs...) }

// Keys that most classes share.
var (
	sizeKeys = []hfKey{
		{"num_hidden_layers", "L"},
		{"hidden_size", "H"},
		{"num_attention_heads", "heads"},
		{"vocab_size", "vocab"},
		{"intermediate_size", "ffn"},
		{"hidden_act", "activation"},
		{"max_position_embeddings", "max_positions"},
	}
	groupKeys    = []hfKey{{"num_key_value_heads", "kv_heads"}, {"head_dim", "head_dim"}, {"attention_dropout", "dropout.attention"}}
	tiedKey      = []hfKey{{"tie_word_embeddings", "tied"}}
	attnBias     = []hfKey{{"attention_bias", "bias.qkv bias.out"}}
	mlpBias      = []hfKey{{"mlp_bias", "bias.mlp"}}
	slidingKeys  = []hfKey{{"sliding_window", "sliding_window"}}
	typedKeys    = []hfKey{{"sliding_window", "sliding_window"}, {"layer_types", "layer_types"}}
	rotaryKey    = []hfKey{{"partial_rotary_factor", "rotary_fraction"}}
	bertDropouts = []hfKey{{"hidden_dropout_prob", "dropout.embedding dropout.residual"}, {"attention_probs_dropout_prob", "dropout.attention"}}
	// recorded is what any class would keep beside its result, for the caller.
	recorded = []hfOnly{{"output_hidden_states", "false"}, {"output_attentions", "false"}}
	// moeOnly: how the experts are computed is grouped_mm unless the config says otherwise.
	moeOnly  = []hfOnly{{"output_router_logits", "false"}, {"experts_implementation", "grouped_mm"}, {"_experts_implementation", "grouped_mm"}}
	bertOnly = []hfOnly{{"is_decoder", "false"}, {"add_cross_attention", "false"}, {"chunk_size_feed_forward", "0"}}
)

// attnFirst is how decoder layers register their modules: attention, MLP, then the norms.
var (
	attnProjections = []string{"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.", "self_attn.o_proj."}
	attnFirst       = concat(attnProjections, []string{"self_attn.", "mlp.", ""})
)

func concat[T any](parts ...[]T) []T {
	var all []T
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

var allBias = Bias{QKV: true, Out: true, MLP: true, Norm: true}

// classes holds the defaults of transformers/models/*/configuration_*.py, version 5.12.
var classes = []class{
	{
		arch: "gpt2", heads: []string{"GPT2LMHeadModel"},
		spec: Spec{
			L: 12, H: 768, Heads: 12, Vocab: 50257, MaxS: 1024, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new",
			Positions: "learned", Bias: allBias, Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
		},
		keys: concat([]hfKey{
			{"num_hidden_layers", "L"},
			{"hidden_size", "H"},
			{"num_attention_heads", "heads"},
			{"max_position_embeddings", "max_positions"},
			{"n_layer", "L"},
			{"n_embd", "H"},
			{"n_head", "heads"},
			{"n_inner", "ffn"},
			{"n_positions", "max_positions"},
			{"vocab_size", "vocab"},
			{"activation_function", "activation"},
			{"embd_pdrop", "dropout.embedding"},
			{"attn_pdrop", "dropout.attention"},
			{"resid_pdrop", "dropout.residual"},
			{"scale_attn_by_inverse_layer_idx", "layer_scaled_attention"},
			{"reorder_and_upcast_attn", "upcast_attention"},
		}, tiedKey),
		only:   []hfOnly{{"add_cross_attention", "false"}},
		varies: []string{"unscaled_attention"},
	},
	{
		arch: "llama", heads: []string{"LlamaForCausalLM"}, wide: true,
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 32000, MaxS: 2048, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias),
	},
	{
		arch: "mistral", heads: []string{"MistralForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocab: 32000, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, SlidingWindow: 4096,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, slidingKeys),
	},
	{
		arch: "qwen2", heads: []string{"Qwen2ForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, KVHeads: 32, FFN: 22016, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, Bias: Bias{QKV: true},
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, typedKeys),
	},
	{
		arch: "qwen3", heads: []string{"Qwen3ForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFN: 22016, Vocab: 151936, MaxS: 32768, Norm: "rmsnorm", NormOrder: "pre",
			QKNorm: true, Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, attnBias, typedKeys),
	},
	{
		arch: "gpt-neox", heads: []string{"GPTNeoXForCausalLM"},
		modules: []string{"input_layernorm.", "post_attention_layernorm.", ""},
		spec: Spec{
			L: 44, H: 6144, Heads: 64, FFN: 24576, Vocab: 50432, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu",
			Positions: "rotary", Rotary: 0.25, Bias: allBias, ParallelResidual: true,
		},
		keys: concat(sizeKeys, tiedKey, attnBias, rotaryKey, []hfKey{
			{"rotary_pct", "rotary_fraction"},
			{"use_parallel_residual", "parallel_residual"},
			{"attention_dropout", "dropout.attention"},
			{"hidden_dropout", "dropout.embedding dropout.residual"},
		}),
	},
	{
		arch: "opt", heads: []string{"OPTForCausalLM"},
		spec: Spec{
			L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 50272, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "relu",
			Positions: "learned", Bias: allBias, Dropout: Dropout{Residual: .1}, Tied: true, FinalNorm: true,
		},
		keys: concat(sizeKeys, tiedKey, []hfKey{
			{"ffn_dim", "ffn"},
			{"activation_function", "activation"},
			{"dropout", "dropout.residual"},
			{"attention_dropout", "dropout.attention"},
			{"word_embed_proj_dim", "embedding_dim"},
			{"enable_bias", "bias.qkv bias.out bias.mlp"},
		}),
		only:   []hfOnly{{"layerdrop", "0"}},
		varies: []string{"norm_order", "final_norm", "plain_norm"},
	},
	{
		arch: "bert", heads: []string{"BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification", "BertForQuestionAnswering"},
		spec: Spec{
			L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 30522, MaxS: 512, Types: 2, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
			Positions: "learned", Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
			Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
		},
		keys: concat(sizeKeys, tiedKey, bertDropouts, []hfKey{{"type_vocab_size", "token_types"}}),
		only: concat(bertOnly, []hfOnly{{"problem_type", "single_label_classification"}}), varies: []string{"labels", "labels_of", "dropout.classifier"},
	},
	{
		arch: "roberta", heads: []string{"RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification", "RobertaForQuestionAnswering"},
		spec: Spec{
			L: 12, H: 768, Heads: 12, FFN: 3072, Vocab: 50265, MaxS: 512, Types: 2, Norm: "layernorm", NormOrder: "post", Activation: "gelu",
			Positions: "learned", Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
			Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1}, Tied: true,
		},
		keys: concat(sizeKeys, tiedKey, bertDropouts, []hfKey{{"type_vocab_size", "token_types"}}),
		only: concat(bertOnly, []hfOnly{{"problem_type", "single_label_classification"}}), varies: []string{"labels", "labels_of", "dropout.classifier"},
	},
	{
		arch: "vit", heads: []string{"ViTForImageClassification"},
		modules: []string{"attention.", "layernorm_", ""},
		spec: Spec{
			L: 12, H: 768, Heads: 12, FFN: 3072, Norm: "layernorm", NormOrder: "pre", Activation: "gelu", Positions: "learned",
			Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}, Image: &Image{Size: 224, Patch: 16, Channels: 3}, Labels: 2,
		},
		keys: concat(sizeKeys[:3], sizeKeys[4:6], bertDropouts, []hfKey{
			{"image_size", "image.size"}, {"patch_size", "image.patch"}, {"num_channels", "image.channels"}, {"qkv_bias", "bias.qkv"}, {"num_labels", "labels"},
		}),
		only: []hfOnly{{"problem_type", "single_label_classification"}},
	},
	{
		arch: "mixtral", heads: []string{"MixtralForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocab: 32000, MaxS: 131072, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, MoE: &MoE{Experts: 8, TopK: 2, SparseStep: 1, NormTopK: true},
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, slidingKeys, []hfKey{
			{"num_experts", "moe.experts"}, {"num_local_experts", "moe.experts"}, {"num_experts_per_tok", "moe.top_k"},
		}),
		only:   concat(moeOnly, []hfOnly{{"router_jitter_noise", "0"}}),
		varies: []string{"moe.ffn"},
	},
	{
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
		only: moeOnly,
	},
	{
		arch: "phi", heads: []string{"PhiForCausalLM"},
		modules: concat(attnProjections[:3], []string{"self_attn.dense.", "self_attn.", "mlp.", ""}),
		spec: Spec{
			L: 24, H: 2048, Heads: 32, FFN: 8192, Vocab: 51200, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_new",
			Positions: "rotary", Rotary: 0.5, Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}, ParallelResidual: true,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, rotaryKey, []hfKey{{"embd_pdrop", "dropout.embedding"}, {"resid_pdrop", "dropout.residual"}, {"qk_layernorm", "qk_norm"}}),
	},
	{
		arch: "phi3", heads: []string{"Phi3ForCausalLM"}, wide: true,
		modules: []string{"self_attn.o_proj.", "self_attn.", "mlp.", ""},
		spec: Spec{
			L: 32, H: 3072, Heads: 32, FFN: 8192, Vocab: 32064, MaxS: 4096, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, slidingKeys, rotaryKey, []hfKey{{"resid_pdrop", "dropout.residual"}}),
	},
	{
		arch: "gemma", own: []string{"norm"}, heads: []string{"GemmaForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 28, H: 3072, Heads: 16, KVHeads: 16, HeadDim: 256, FFN: 24576, Vocab: 256000, MaxS: 8192, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "gelu_tanh", Gated: true, Positions: "rotary", Rotary: 1, Tied: true,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, attnBias),
		only: []hfOnly{{"use_bidirectional_attention", "false"}},
	},
	{
		arch: "gemma2", own: []string{"norm"}, heads: []string{"Gemma2ForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 26, H: 2304, Heads: 8, KVHeads: 4, HeadDim: 256, FFN: 9216, Vocab: 256000, MaxS: 8192, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "gelu_tanh", Gated: true, Positions: "rotary", Rotary: 1, Tied: true, SlidingWindow: 4096, LogitSoftcap: true, AttnSoftcap: true,
		},
		keys:   concat(sizeKeys[:5], sizeKeys[6:], groupKeys, tiedKey, attnBias, typedKeys, []hfKey{{"hidden_activation", "activation"}}),
		only:   []hfOnly{{"use_bidirectional_attention", "false"}},
		varies: []string{"logit_softcap", "attention_softcap"},
	},
	{
		arch: "olmo2", own: []string{"norm"}, heads: []string{"Olmo2ForCausalLM"}, wide: true,
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 50304, MaxS: 2048, Norm: "rmsnorm", NormOrder: "post", QKNorm: true,
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, attnBias),
	},
	{
		arch: "starcoder2", heads: []string{"Starcoder2ForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 30, H: 3072, Heads: 24, KVHeads: 2, FFN: 12288, Vocab: 49152, MaxS: 4096, Norm: "layernorm", NormOrder: "pre",
			Activation: "gelu_tanh", Positions: "rotary", Rotary: 1, Bias: allBias, Tied: true,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, slidingKeys, []hfKey{
			{"use_bias", "bias.qkv bias.out bias.mlp"}, {"residual_dropout", "dropout.residual"}, {"embedding_dropout", "dropout.embedding"},
		}),
	},
	{
		arch: "falcon", heads: []string{"FalconForCausalLM"},
		modules: []string{"self_attention.", "mlp.", "post_attention_layernorm.", ""},
		spec: Spec{
			L: 32, H: 4544, Heads: 71, KVHeads: 1, Vocab: 65024, MaxS: 2048, Norm: "layernorm", NormOrder: "pre", Activation: "gelu",
			Positions: "rotary", Rotary: 1, Bias: Bias{Norm: true}, Tied: true, ParallelResidual: true,
		},
		keys: concat([]hfKey{{"n_embed", "H"}}, sizeKeys[:4], sizeKeys[6:], tiedKey, []hfKey{
			{"ffn_hidden_size", "ffn"},
			{"activation", "activation"},
			{"bias", "bias.qkv bias.out bias.mlp"},
			{"parallel_attn", "parallel_residual"},
			{"new_decoder_architecture", "new_decoder"},
			{"attention_dropout", "dropout.attention"},
			{"hidden_dropout", "dropout.residual"},
		}),
		varies: []string{"kv_heads", "positions", "shared_norm"},
	},
	{
		arch: "bloom", own: []string{"activation"}, heads: []string{"BloomForCausalLM"}, eager: true,
		spec: Spec{
			L: 2, H: 64, Heads: 8, Vocab: 250880, Norm: "layernorm", NormOrder: "pre", Activation: "gelu_tanh", Positions: "alibi",
			Bias: allBias, Tied: true,
		},
		keys: concat([]hfKey{
			{"num_hidden_layers", "L"},
			{"n_embed", "H"},
			{"num_attention_heads", "heads"},
			{"n_layer", "L"},
			{"hidden_size", "H"},
			{"n_head", "heads"},
			{"vocab_size", "vocab"},
			{"attention_dropout", "dropout.attention"},
			{"hidden_dropout", "dropout.residual"},
			{"seq_length", "max_positions"},
			{"apply_residual_connection_post_layernorm", "normed_residual"},
		}, tiedKey),
	},
	{
		arch: "granite", heads: []string{"GraniteForCausalLM"}, wide: true,
		modules: attnFirst,
		spec: Spec{
			L: 32, H: 4096, Heads: 32, FFN: 11008, Vocab: 32000, MaxS: 2048, Norm: "rmsnorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, LogitScale: true,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, attnBias, mlpBias),
	},
	{
		arch: "cohere", heads: []string{"CohereForCausalLM"},
		modules: attnFirst,
		spec: Spec{
			L: 40, H: 8192, Heads: 64, FFN: 22528, Vocab: 256000, MaxS: 8192, Norm: "layernorm", NormOrder: "pre",
			Activation: "silu", Gated: true, Positions: "rotary", Rotary: 1, Tied: true, ParallelResidual: true, LogitScale: true,
		},
		keys: concat(sizeKeys, groupKeys, tiedKey, attnBias, []hfKey{{"use_qk_norm", "qk_norm"}}),
	},
	{
		arch: "t5", own: []string{"norm"}, heads: []string{"T5ForConditionalGeneration", "T5WithLMHeadModel"}, eager: true,
		modules: []string{
			"layer.0.SelfAttention.q.", "layer.0.SelfAttention.k.", "layer.0.SelfAttention.v.", "layer.0.SelfAttention.o.", "layer.0.SelfAttention.", "layer.0.",
			"layer.1.EncDecAttention.", "layer.1.DenseReluDense.", "layer.1.", "layer.2.DenseReluDense.", "",
		},
		spec: Spec{
			L: 6, DecoderL: 6, H: 512, Heads: 8, HeadDim: 64, FFN: 2048, Vocab: 32128, Norm: "rmsnorm", NormOrder: "pre", Activation: "relu",
			Positions: "relative", Dropout: Dropout{Embedding: .1, Attention: .1, Residual: .1, MLP: .1}, Tied: true, LogitScale: true,
		},
		keys: []hfKey{
			{"num_hidden_layers", "L"},
			{"hidden_size", "H"},
			{"num_attention_heads", "heads"},
			{"head_dim", "head_dim"},
			{"num_layers", "L"},
			{"num_decoder_layers", "decoder_L"},
			{"d_model", "H"},
			{"num_heads", "heads"},
			{"d_kv", "head_dim"},
			{"d_ff", "ffn"},
			{"vocab_size", "vocab"},
			{"n_positions", "max_positions"},
			{"dropout_rate", "dropout.embedding dropout.attention dropout.residual dropout.mlp"},
			{"is_gated_act", "gated"},
			{"dense_act_fn", "activation"},
		},
		only:   []hfOnly{{"relative_attention_num_buckets", "32"}},
		varies: []string{"decoder_S", "logit_scale"},
	},
	{
		arch:    "torch-encoder",
		modules: []string{"self_attn.", "linear", "norm", ""}, // nn.TransformerEncoderLayer; a block has norms, attn, mlp
		spec: Spec{
			FFN: 2048, Norm: "layernorm", NormOrder: "post", Activation: "relu", Positions: "none", Bias: allBias,
			Dropout: Dropout{Attention: .1, Residual: .1, MLP: .1},
		},
		varies: []string{
			"norm_order", "need_weights", "causal", "final_norm", "vocab", "labels", "positions", "max_positions", "tied", "bias.qkv", "bias.out", "bias.mlp", "bias.norm", "bias.head",
			"dropout.embedding", "dropout.attention", "dropout.residual", "dropout.mlp",
		},
	},
	{
		arch: "custom",
		spec: Spec{Norm: "layernorm", NormOrder: "pre", Activation: "gelu", Positions: "none", Bias: Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true}},
	},
}
