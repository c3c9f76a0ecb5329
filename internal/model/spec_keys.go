package model

import "strings"

// field is one key of a spec document: where its value goes, and which values it takes.
type field struct {
	key  string          // path in the document: train.lora.r
	ptr  func(*Spec) any // *int, *float64, *bool, *string, *Precision, *[]string or *[]int
	low  int             // smallest count
	enum []string        // accepted words
	span realSpan        // accepted numbers of a *float64
}

// Accepted words of the keys that take one.
var (
	precisions  = []string{"fp32", "bf16", "fp16", "amp-bf16", "amp-fp16"}
	attentions  = []string{"eager", "sdpa", "math", "flash2"}
	norms       = []string{"layernorm", "rmsnorm", "rmsnorm-fused"}
	activations = []string{"gelu", "gelu_new", "gelu_tanh", "gelu_fast", "silu", "relu", "tanh", "quick_gelu"}
	optimizers  = []string{"adamw", "adamw-loop", "adamw-fused", "sgd", "none"}
	adapters    = []string{"fp32", "bf16", "fp16"}
)

// fields are all keys, in the order of the Spec.
var fields = []field{
	{key: "name", ptr: func(s *Spec) any { return &s.Name }},
	{key: "arch", ptr: func(s *Spec) any { return &s.Arch }},
	{key: "L", ptr: func(s *Spec) any { return &s.L }, low: 1},
	{key: "S", ptr: func(s *Spec) any { return &s.S }, low: 1},
	{key: "H", ptr: func(s *Spec) any { return &s.H }, low: 1},
	{key: "B", ptr: func(s *Spec) any { return &s.B }, low: 1},
	{key: "heads", ptr: func(s *Spec) any { return &s.Heads }, low: 1},
	{key: "kv_heads", ptr: func(s *Spec) any { return &s.KVHeads }, low: 1},
	{key: "head_dim", ptr: func(s *Spec) any { return &s.HeadDim }, low: 1},
	{key: "ffn", ptr: func(s *Spec) any { return &s.FFN }, low: 1},
	{key: "vocab", ptr: func(s *Spec) any { return &s.Vocab }, low: 1},
	{key: "decoder_L", ptr: func(s *Spec) any { return &s.DecoderL }, low: 1},
	{key: "decoder_S", ptr: func(s *Spec) any { return &s.DecoderS }, low: 1},
	{key: "dtype", ptr: func(s *Spec) any { return &s.Precision }, enum: precisions},
	{key: "attention", ptr: func(s *Spec) any { return &s.Attention }, enum: attentions},
	{key: "checkpoint", ptr: func(s *Spec) any { return &s.Checkpoint }},
	{key: "norm", ptr: func(s *Spec) any { return &s.Norm }, enum: norms},
	{key: "norm_order", ptr: func(s *Spec) any { return &s.NormOrder }, enum: []string{"pre", "post"}},
	{key: "plain_norm", ptr: func(s *Spec) any { return &s.PlainNorm }},
	{key: "qk_norm", ptr: func(s *Spec) any { return &s.QKNorm }},
	{key: "activation", ptr: func(s *Spec) any { return &s.Activation }, enum: activations},
	{key: "gated", ptr: func(s *Spec) any { return &s.Gated }},
	{key: "positions", ptr: func(s *Spec) any { return &s.Positions }, enum: []string{"learned", "rotary", "alibi", "relative", "sinusoidal", "none"}},
	{key: "rotary_fraction", ptr: func(s *Spec) any { return &s.Rotary }, span: share},
	{key: "max_positions", ptr: func(s *Spec) any { return &s.MaxS }, low: 1},
	{key: "bias.qkv", ptr: func(s *Spec) any { return &s.Bias.QKV }},
	{key: "bias.out", ptr: func(s *Spec) any { return &s.Bias.Out }},
	{key: "bias.mlp", ptr: func(s *Spec) any { return &s.Bias.MLP }},
	{key: "bias.head", ptr: func(s *Spec) any { return &s.Bias.Head }},
	{key: "bias.norm", ptr: func(s *Spec) any { return &s.Bias.Norm }},
	{key: "dropout.embedding", ptr: func(s *Spec) any { return &s.Dropout.Embedding }},
	{key: "dropout.attention", ptr: func(s *Spec) any { return &s.Dropout.Attention }},
	{key: "dropout.residual", ptr: func(s *Spec) any { return &s.Dropout.Residual }},
	{key: "dropout.mlp", ptr: func(s *Spec) any { return &s.Dropout.MLP }},
	{key: "dropout.classifier", ptr: func(s *Spec) any { return &s.Dropout.Classifier }},
	{key: "tied", ptr: func(s *Spec) any { return &s.Tied }},
	{key: "parallel_residual", ptr: func(s *Spec) any { return &s.ParallelResidual }},
	{key: "normed_residual", ptr: func(s *Spec) any { return &s.NormedResidual }},
	{key: "new_decoder", ptr: func(s *Spec) any { return &s.NewDecoder }},
	{key: "shared_norm", ptr: func(s *Spec) any { return &s.SharedNorm }},
	{key: "sliding_window", ptr: func(s *Spec) any { return &s.SlidingWindow }},
	{key: "layer_types", ptr: func(s *Spec) any { return &s.LayerTypes }, enum: []string{"full_attention", "sliding_attention"}},
	{key: "logit_softcap", ptr: func(s *Spec) any { return &s.LogitSoftcap }},
	{key: "attention_softcap", ptr: func(s *Spec) any { return &s.AttnSoftcap }},
	{key: "unscaled_attention", ptr: func(s *Spec) any { return &s.UnscaledAttn }},
	{key: "layer_scaled_attention", ptr: func(s *Spec) any { return &s.LayerScaledAttn }},
	{key: "upcast_attention", ptr: func(s *Spec) any { return &s.UpcastAttn }},
	{key: "logit_scale", ptr: func(s *Spec) any { return &s.LogitScale }},
	{key: "moe.experts", ptr: func(s *Spec) any { return &s.MoE.Experts }, low: 1},
	{key: "moe.top_k", ptr: func(s *Spec) any { return &s.MoE.TopK }, low: 1},
	{key: "moe.ffn", ptr: func(s *Spec) any { return &s.MoE.FFN }, low: 1},
	{key: "moe.sparse_step", ptr: func(s *Spec) any { return &s.MoE.SparseStep }, low: 1},
	{key: "moe.dense_layers", ptr: func(s *Spec) any { return &s.MoE.DenseLayers }},
	{key: "moe.norm_top_k", ptr: func(s *Spec) any { return &s.MoE.NormTopK }},
	{key: "image.size", ptr: func(s *Spec) any { return &s.Image.Size }, low: 1},
	{key: "image.patch", ptr: func(s *Spec) any { return &s.Image.Patch }, low: 1},
	{key: "image.channels", ptr: func(s *Spec) any { return &s.Image.Channels }, low: 1},
	{key: "labels", ptr: func(s *Spec) any { return &s.Labels }, low: 1},
	{key: "labels_of", ptr: func(s *Spec) any { return &s.LabelsOf }, enum: []string{"sequence", "tokens", "span"}},
	{key: "token_types", ptr: func(s *Spec) any { return &s.Types }, low: 1},
	{key: "embedding_dim", ptr: func(s *Spec) any { return &s.EmbedDim }, low: 1},
	{key: "need_weights", ptr: func(s *Spec) any { return &s.NeedWeights }},
	{key: "causal", ptr: func(s *Spec) any { return &s.Causal }},
	{key: "final_norm", ptr: func(s *Spec) any { return &s.FinalNorm }},
	{key: "ops", ptr: func(s *Spec) any { return &s.Ops }},
	{key: "train.optimizer", ptr: func(s *Spec) any { return &s.Train.Optimizer }, enum: optimizers},
	{key: "train.keep_logits", ptr: func(s *Spec) any { return &s.Train.KeepLogits }},
	{key: "train.loss_chunks", ptr: func(s *Spec) any { return &s.Train.LossChunks }, low: 1},
	{key: "train.grad_accum", ptr: func(s *Spec) any { return &s.Train.GradAccum }, low: 1},
	{key: "train.finetune", ptr: func(s *Spec) any { return &s.Train.Finetune }, enum: []string{"full", "lora"}},
	{key: "train.lora.r", ptr: func(s *Spec) any { return &s.Train.LoRA.Rank }, low: 1},
	{key: "train.lora.alpha", ptr: func(s *Spec) any { return &s.Train.LoRA.Alpha }, span: positive},
	{key: "train.lora.dropout", ptr: func(s *Spec) any { return &s.Train.LoRA.Dropout }},
	{key: "train.lora.dtype", ptr: func(s *Spec) any { return &s.Train.LoRA.DType }, enum: adapters},
	{key: "train.lora.targets", ptr: func(s *Spec) any { return &s.Train.LoRA.Targets }},
	{key: "parallel.dp", ptr: func(s *Spec) any { return &s.Parallel.DP }, low: 1},
	{key: "parallel.zero", ptr: func(s *Spec) any { return &s.Parallel.Zero }},
	{key: "parallel.tp", ptr: func(s *Spec) any { return &s.Parallel.TP }, low: 1},
	{key: "parallel.sp", ptr: func(s *Spec) any { return &s.Parallel.SP }},
	{key: "parallel.cp", ptr: func(s *Spec) any { return &s.Parallel.CP }, low: 1},
	{key: "parallel.pp", ptr: func(s *Spec) any { return &s.Parallel.PP }, low: 1},
	{key: "parallel.ep", ptr: func(s *Spec) any { return &s.Parallel.EP }, low: 1},
}

// required are the keys without a default.
var required = []string{"L", "S", "H", "B", "heads", "dtype"}

func fieldOf(key string) *field {
	for i := range fields {
		if fields[i].key == key {
			return &fields[i]
		}
	}
	return nil
}

// section is true for a key that holds a map of keys, such as train.
func section(key string) bool {
	for i := range fields {
		if strings.HasPrefix(fields[i].key, key) && len(fields[i].key) > len(key) && fields[i].key[len(key)] == '.' {
			return true
		}
	}
	return false
}

// children are the names directly inside a section; "" is the document.
func children(of string) []string {
	var names []string
	for i := range fields {
		rest := fields[i].key
		if of != "" {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, of+"."); !ok {
				continue
			}
		}
		name, _, _ := strings.Cut(rest, ".")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}

// openSection makes the optional part of s that a section fills.
func openSection(s *Spec, section string) {
	switch {
	case section == "moe" && s.MoE == nil:
		s.MoE = &MoE{}
	case section == "image" && s.Image == nil:
		s.Image = &Image{}
	case section == "train.lora" && s.Train.LoRA == nil:
		s.Train.LoRA = &LoRA{}
	}
}

// hasSection is false if the optional part of s that holds f is missing.
func hasSection(s *Spec, f *field) bool {
	switch {
	case strings.HasPrefix(f.key, "moe."):
		return s.MoE != nil
	case strings.HasPrefix(f.key, "image."):
		return s.Image != nil
	case strings.HasPrefix(f.key, "train.lora."):
		return s.Train.LoRA != nil
	}
	return true
}
