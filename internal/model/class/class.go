// Package class has one file for each model class: its row (defaults, config.json keys and rules, what LoRA adapts, where
// the parts of a layer are) and its forward pass. Classes lists the rows.
package class

import (
	"cmp"
	"slices"
	"strings"

	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// Class is a model class: everything that is particular to it. Most are classes of Hugging Face transformers 5.12, with the
// defaults of its configuration class and the keys of its config.json; the same row serves YAML specs of that arch.
// torchEncoder and custom have no config.json.
//
// A new class is a file with a row and its forward, and an entry in classes.
type Class struct {
	Arch string
	// Type is its model_type where that is not Arch with underscores, prefix its base_model_prefix where that is not Arch.
	Type, prefix string
	Heads        []string  // values of `architectures` whose head and loss are modelled; the first is the default
	Spec         spec.Spec // defaults; KVHeads and HeadDim 0: heads and H/heads; FFN 0: 4H
	// Forward emits the ops of one forward pass with loss.
	Forward   func(Forward)
	Constants build.Constants

	// Keys and only are the keys of its config.json. derive follows the rules of its configuration class that are more than
	// one key for one key of the spec; encode is its inverse: it adds what keys cannot say to a config made of a spec.
	Keys   []hfKey
	Only   []hfOnly
	Derive func(c *Config, s *spec.Spec)
	encode func(s *spec.Spec, config map[string]any)
	// Seq is the length of a run where a config.json names no positions; 0: 2048.
	Seq int
	// KeepsWindow: the class makes the window's mask even where no layer reads it.
	KeepsWindow bool

	// Defaults sets what a spec leaves out by rules of the class's own.
	Defaults func(s *spec.Spec, given func(key string) bool)
	// Problems reports contradictions that only this class knows.
	Problems func(s *spec.Spec, add func(key, format string, args ...any))
	// Wide is true if an own FFN default of a YAML spec is 8H/3 rounded up to 256 (Llama's rule), not H·ffn/hidden.
	Wide bool
	// Eager is true if the class has no SDPA path.
	Eager bool
	// OwnHeadDim: head_dim does not follow H.
	OwnHeadDim bool
	// Offset is how many rows of the position table come before the first token's (padding_idx + 1).
	Offset int
	// Own are the keys, norm and activation, of what the class writes itself and a spec cannot change: Gemma's RMSNorm
	// multiplies by 1 + weight in fp32, OLMo 2's by the weight before the cast, T5's leaves 16-bit input as it is, and
	// BLOOM's GELU is an autograd function.
	Own []string
	// varies are keys of a YAML spec that may differ from the defaults although no config.json key sets them.
	varies []string

	// OwnLinear: its linear layers are no nn.Linear (GPT-2's Conv1D, Falcon's), which alone a quantised base replaces.
	OwnLinear bool
	// Linears are the module names of the nn.Linear and Conv1D layers inside its blocks, which are what peft can adapt; the
	// head is left out, as peft's all-linear does. linearsOf decides where the spec matters. targets are peft's own defaults
	// (TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING).
	Linears   []string
	LinearsOf func(*spec.Spec) []string
	Targets   []string
	// head is the module name of its head where that is not lm_head.
	head string
	// First is the beginning of the names of the parameters that the class registers before all others, or empty.
	First string
	// Modules are the beginnings of the names of a layer's parameters in the order in which the class registers them, "" for
	// any other; nil: as forward meets them.
	Modules []string

	// parts are where the torch runner finds the parts of a layer, auto the class of transformers that makes the model,
	// AutoModelForCausalLM if empty; autoOf decides where the spec matters. tuple: a layer returns a tuple.
	parts  parts
	auto   string
	autoOf func(*spec.Spec) string
	// causal: a causal language model, although autoOf has other heads.
	causal bool
	tuple  bool
}

// Forward is a Builder with what the classes add to it.
type Forward struct {
	*build.Builder
	Class *Class
}

// Classes are the modelled classes, in the order in which they are listed to users.
var Classes = []*Class{
	&gpt2, &llama, &mistral, &qwen2, &qwen3, &neox, &opt, &bert, &roberta, &xlmRoberta, &camembert, &distilbert, &electra, &vit, &mixtral, &qwen2MoE, &qwen3MoE, &gptOss, &phi, &phi3, &gemma, &gemma2, &gemma3, &smollm3, &glm4, &olmo2, &olmo3, &starcoder2, &falcon, &bloom, &granite, &cohere, &t5, &mt5, &torchEncoder, &custom,
}

// hfKey names one key of a config.json and the keys of the spec that it sets. Of two names of one thing the first in the
// table counts: Hugging Face sets what is no field of the configuration class (the names in its attribute_map, n_embed)
// after the fields, so that it wins.
type hfKey struct{ Name, Spec string }

// hfOnly is a setting that changes the computation and is modelled with one value: "false", "0", "null" …
type hfOnly struct{ Name, Value string }

// HasHead is true for a class whose head and loss are modelled. Case does not matter: LLaMAForCausalLM was Llama's name
// before its release in transformers, and from_pretrained does not ask.
func (c *Class) HasHead(name string) bool {
	return slices.ContainsFunc(c.Heads, func(h string) bool { return strings.EqualFold(h, name) })
}

// Classifies is true for a class with a head for labels, whose number decides on the loss.
func (c *Class) Classifies() bool {
	return slices.ContainsFunc(c.Only, func(o hfOnly) bool { return o.Name == "problem_type" })
}

// ModelType is the class's model_type in a config.json.
func (c *Class) ModelType() string { return cmp.Or(c.Type, strings.ReplaceAll(c.Arch, "-", "_")) }

// base is the module that holds all but the head.
func (c *Class) base() string { return cmp.Or(c.prefix, c.Arch) }

// labelHeads are the ends of the names of the heads that label the sequence, every token, or the ends of a span.
var labelHeads = map[string]string{"": forSequences, "sequence": forSequences, "tokens": forTokens, "span": "ForQuestionAnswering"}

// Labels is true if a head of the class labels that; see Spec.LabelsOf.
func (c *Class) Labels(of string) bool {
	return slices.ContainsFunc(c.Heads, func(h string) bool { return strings.HasSuffix(h, labelHeads[of]) })
}

// Causal is true for the causal language models.
func (c *Class) Causal() bool {
	return len(c.Heads) > 0 && c.auto == "" && (c.autoOf == nil || c.causal)
}

// HeadName is the module name of a causal language model's head.
func (c *Class) HeadName() string { return cmp.Or(c.head, "lm_head") }

// Archs are the names of the modelled classes, as in Spec.Arch.
func Archs() []string {
	names := make([]string, len(Classes))
	for i, c := range Classes {
		names[i] = c.Arch
	}
	return names
}

// Of finds a class by arch or model_type; hyphens and underscores do not matter.
func Of(name string) *Class {
	name = nearest.Fold(name)
	for _, c := range Classes {
		if c.Arch == name {
			return c
		}
	}
	return nil
}

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
	// Recorded is what any class would keep beside its result, for the caller.
	Recorded = []hfOnly{{"output_hidden_states", "false"}, {"output_attentions", "false"}}
	// moeOnly: how the experts are computed is grouped_mm unless the config says otherwise.
	moeOnly  = []hfOnly{{"output_router_logits", "false"}, {"experts_implementation", "grouped_mm"}, {"_experts_implementation", "grouped_mm"}}
	bertOnly = []hfOnly{{"is_decoder", "false"}, {"add_cross_attention", "false"}, {"chunk_size_feed_forward", "0"}}
)

// attnFirst is how decoder layers register their modules: attention, MLP, then the norms.
var (
	attnProjections = []string{"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.", "self_attn.o_proj."}
	attnFirst       = Concat(attnProjections, []string{"self_attn.", "mlp.", ""})
)

// Concat joins lists.
func Concat[T any](parts ...[]T) []T {
	var all []T
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// attnLinears are the linear layers of a decoder's attention, gatedLinears those of one with a gated MLP too, qvTargets
// peft's default of most decoders.
var (
	attnLinears  = []string{"q_proj", "k_proj", "v_proj", "o_proj"}
	gatedLinears = Concat(attnLinears, []string{"gate_proj", "up_proj", "down_proj"})
	qvTargets    = []string{"q_proj", "v_proj"}
)

var allBias = spec.Bias{QKV: true, Out: true, MLP: true, Norm: true}

// TakesNorm is true for the class's own norm, and for the common RMSNorm in one kernel.
func (c *Class) TakesNorm(norm string) bool {
	return c.Arch == "custom" || norm == c.Spec.Norm || norm == "rmsnorm-fused" && c.FusesNorm()
}

// FusesNorm is true if the class's norm is the RMSNorm that a fused kernel computes.
func (c *Class) FusesNorm() bool { return c.Spec.Norm == "rmsnorm" && !slices.Contains(c.Own, "norm") }

// NormWords are the norms that the class takes.
func (c *Class) NormWords() string {
	switch {
	case c.FusesNorm():
		return "rmsnorm, composed as Hugging Face does, or rmsnorm-fused"
	case slices.Contains(c.Own, "norm"):
		return "rmsnorm alone, of its own kind, for which no fused kernel is modelled"
	}
	return c.Spec.Norm
}

// Honours is true for a key that may differ from the class's defaults.
func (c *Class) Honours(key string) bool {
	switch key {
	case "name", "arch", "L", "S", "H", "B", "heads", "dtype", "weights", "autocast", "attention", "checkpoint", "ffn", "activation", "norm":
		return true
	case "vocab":
		if c.Spec.Vocab > 0 {
			return true
		}
	}
	if strings.HasPrefix(key, "train.") || strings.HasPrefix(key, "parallel.") || slices.Contains(c.varies, key) {
		return true
	}
	for _, k := range c.Keys {
		if slices.Contains(strings.Fields(k.Spec), key) {
			return true
		}
	}
	return false
}
