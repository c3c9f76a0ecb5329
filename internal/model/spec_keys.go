package model

import (
	"strings"

	"ckptplan/internal/optimizer"
)

// field is one key of a spec document. The reader, the JSON schema (configs/model.schema.json), the help of the key's flag and
// its completion are made of it.
type field struct {
	key  string          // path in the document: train.lora.r
	ptr  func(*Spec) any // *int, *float64, *bool, *string, *Precision, *[]string or *[]int
	low  int             // smallest count
	enum []string        // accepted words
	span realSpan        // accepted numbers of a *float64
	// about describes the key in the schema.
	about string
	// flag is the name of the flag that sets it; help is the flag's help, which ends in the accepted words, with notes on some.
	flag, help string
	notes      notes
}

// notes explain accepted words.
type notes map[string]string

// formsOf are the kernels' forms of optimizers whose names do not say them.
func formsOf(rows []optimizer.Row) notes {
	out := notes{}
	for _, r := range rows {
		if r.Form != "" {
			out[r.Name] = r.Form
		}
	}
	return out
}

// composed are the notes of two words for one function.
func composed(ops, kernel string) notes {
	return notes{ops: "composed of single ops, as Hugging Face does", kernel: "the same in one kernel"}
}

// Flag is the help of the flag that sets a key, and the words that it takes.
func Flag(name string) (help string, words []string) {
	for i := range fields {
		f := &fields[i]
		if f.flag != name || f.key == "train.finetune" {
			continue
		}
		help = f.help
		for i, w := range f.enum {
			switch {
			case i > 0 && i == len(f.enum)-1:
				help += " or "
			case i > 0:
				help += ", "
			}
			help += w
			if n := f.notes[w]; n != "" {
				help += " (" + n + ")"
			}
		}
		return help, f.enum
	}
	return "", nil
}

// flagOf is the flag that sets a key, such as --batch, or "".
func flagOf(key string) string {
	if key == "train.lora" {
		key = "train.lora.r"
	}
	if f := fieldOf(key); f != nil && f.flag != "" {
		return "--" + f.flag
	}
	return ""
}

// Accepted words of the keys that take one.
var (
	precisions  = []string{"fp32", "bf16", "fp16", "amp-bf16", "amp-fp16"}
	attentions  = []string{"eager", "sdpa", "math", "flash2"}
	norms       = []string{"layernorm", "rmsnorm", "rmsnorm-fused"}
	activations = []string{"gelu", "gelu_new", "gelu_tanh", "gelu_fast", "silu", "relu", "tanh", "quick_gelu"}
	adapters    = []string{"fp32", "bf16", "fp16"}
)

// fields are all keys, in the order of the Spec.
var fields = []field{
	{key: "name", ptr: func(s *Spec) any { return &s.Name }, about: "Name shown in tables."},
	{key: "arch", ptr: func(s *Spec) any { return &s.Arch }, about: "Model class: a named set of defaults (default gpt2)."},
	{key: "L", ptr: func(s *Spec) any { return &s.L }, low: 1, about: "Number of layers."},
	{key: "S", ptr: func(s *Spec) any { return &s.S }, low: 1, about: "Sequence length in tokens.", flag: "seq", help: "sequence length in `tokens`"},
	{key: "H", ptr: func(s *Spec) any { return &s.H }, low: 1, about: "Hidden size."},
	{key: "B", ptr: func(s *Spec) any { return &s.B }, low: 1, about: "Micro batch: sequences a forward pass.", flag: "batch", help: "micro batch: `sequences` a forward pass"},
	{key: "heads", ptr: func(s *Spec) any { return &s.Heads }, low: 1, about: "Query heads."},
	{key: "kv_heads", ptr: func(s *Spec) any { return &s.KVHeads }, low: 1, about: "Key and value heads (default heads)."},
	{key: "head_dim", ptr: func(s *Spec) any { return &s.HeadDim }, low: 1, about: "Width of one head (default H/heads)."},
	{key: "ffn", ptr: func(s *Spec) any { return &s.FFN }, low: 1, about: "Width of the MLP."},
	{key: "vocab", ptr: func(s *Spec) any { return &s.Vocab }, low: 1, about: "Vocabulary size."},
	{key: "decoder_L", ptr: func(s *Spec) any { return &s.DecoderL }, low: 1, about: "Decoder layers of an encoder-decoder model (default L)."},
	{key: "decoder_S", ptr: func(s *Spec) any { return &s.DecoderS }, low: 1, about: "Decoder sequence length of an encoder-decoder model (default S)."},
	{key: "dtype", ptr: func(s *Spec) any { return &s.Precision }, enum: precisions, about: "Precision of weights and activations; amp is fp32 weights under autocast.", flag: "precision", notes: notes{"amp-fp16": "amp: fp32 weights under autocast"}},
	{key: "attention", ptr: func(s *Spec) any { return &s.Attention }, enum: attentions, about: "Attention implementation (default sdpa).", flag: "attention", help: "attention: "},
	{key: "checkpoint", ptr: func(s *Spec) any { return &s.Checkpoint }, about: "Named strategy or plan file (default none)."},
	{key: "norm", ptr: func(s *Spec) any { return &s.Norm }, enum: norms, about: "Normalisation: LayerNorm; RMSNorm composed as Hugging Face does; RMSNorm as one fused op.", flag: "norm", help: "norm: ", notes: composed("rmsnorm", "rmsnorm-fused")},
	{key: "norm_order", ptr: func(s *Spec) any { return &s.NormOrder }, enum: []string{"pre", "post"}, about: "Norm before or after each sublayer (torch-encoder and opt)."},
	{key: "plain_norm", ptr: func(s *Spec) any { return &s.PlainNorm }, about: "Norms have no learned weight and shift (opt)."},
	{key: "qk_norm", ptr: func(s *Spec) any { return &s.QKNorm }, about: "Normalise queries and keys."},
	{key: "activation", ptr: func(s *Spec) any { return &s.Activation }, enum: activations, about: "MLP activation.", flag: "activation", help: "MLP activation: ", notes: composed("gelu_new", "gelu_tanh")},
	{key: "gated", ptr: func(s *Spec) any { return &s.Gated }, about: "Gated MLP (SwiGLU or GeGLU, by the activation)."},
	{key: "positions", ptr: func(s *Spec) any { return &s.Positions }, enum: []string{"learned", "rotary", "alibi", "relative", "sinusoidal", "none"}, about: "Position information."},
	{key: "rotary_fraction", ptr: func(s *Spec) any { return &s.Rotary }, span: share, about: "Share of head_dim that is rotated (default 1)."},
	{key: "max_positions", ptr: func(s *Spec) any { return &s.MaxS }, low: 1, about: "Positions of the learned table (OPT's table has two rows more) or of the config."},
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
	{key: "tied", ptr: func(s *Spec) any { return &s.Tied }, about: "Head shares the embedding's weight."},
	{key: "parallel_residual", ptr: func(s *Spec) any { return &s.ParallelResidual }, about: "Attention and MLP read the same layer input."},
	{key: "normed_residual", ptr: func(s *Spec) any { return &s.NormedResidual }, about: "Residuals are taken after the norms (bloom)."},
	{key: "new_decoder", ptr: func(s *Spec) any { return &s.NewDecoder }, about: "Falcon's new decoder architecture: keys and values beside the queries of their group and a norm for each parallel branch."},
	{key: "shared_norm", ptr: func(s *Spec) any { return &s.SharedNorm }, about: "One norm for both branches of Falcon's new decoder architecture (Falcon 2)."},
	{key: "sliding_window", ptr: func(s *Spec) any { return &s.SlidingWindow }, about: "Attention window in tokens of the layers that slide; 0 is none."},
	{key: "layer_types", ptr: func(s *Spec) any { return &s.LayerTypes }, enum: []string{"full_attention", "sliding_attention"}, about: "full_attention or sliding_attention for each layer (default: all slide if sliding_window is set)."},
	{key: "logit_softcap", ptr: func(s *Spec) any { return &s.LogitSoftcap }, about: "Logits pass tanh(x/c)*c before the loss (Gemma 2)."},
	{key: "attention_softcap", ptr: func(s *Spec) any { return &s.AttnSoftcap }, about: "Attention scores pass tanh(x/c)*c (Gemma 2; eager only)."},
	{key: "unscaled_attention", ptr: func(s *Spec) any { return &s.UnscaledAttn }, about: "Attention scores are not divided by the root of head_dim (gpt2)."},
	{key: "layer_scaled_attention", ptr: func(s *Spec) any { return &s.LayerScaledAttn }, about: "Attention scores are divided by the number of the layer from 1 on (gpt2)."},
	{key: "upcast_attention", ptr: func(s *Spec) any { return &s.UpcastAttn }, about: "Attention scores and weights are made in fp32 (gpt2; eager only)."},
	{key: "logit_scale", ptr: func(s *Spec) any { return &s.LogitScale }, about: "Logits (Cohere and Granite) or the decoder's output (T5) are multiplied by a constant."},
	{key: "moe.experts", ptr: func(s *Spec) any { return &s.MoE.Experts }, low: 1},
	{key: "moe.top_k", ptr: func(s *Spec) any { return &s.MoE.TopK }, low: 1},
	{key: "moe.ffn", ptr: func(s *Spec) any { return &s.MoE.FFN }, low: 1},
	{key: "moe.sparse_step", ptr: func(s *Spec) any { return &s.MoE.SparseStep }, low: 1},
	{key: "moe.dense_layers", ptr: func(s *Spec) any { return &s.MoE.DenseLayers }},
	{key: "moe.norm_top_k", ptr: func(s *Spec) any { return &s.MoE.NormTopK }},
	{key: "image.size", ptr: func(s *Spec) any { return &s.Image.Size }, low: 1},
	{key: "image.patch", ptr: func(s *Spec) any { return &s.Image.Patch }, low: 1},
	{key: "image.channels", ptr: func(s *Spec) any { return &s.Image.Channels }, low: 1},
	{key: "labels", ptr: func(s *Spec) any { return &s.Labels }, low: 1, about: "Classes of a classifier head."},
	{key: "labels_of", ptr: func(s *Spec) any { return &s.LabelsOf }, enum: []string{"sequence", "tokens", "span"}, about: "What BERT and RoBERTa label: the sequence (default); every token; the two ends of a span (question answering)."},
	{key: "token_types", ptr: func(s *Spec) any { return &s.Types }, low: 1, about: "Token types (bert and roberta)."},
	{key: "embedding_dim", ptr: func(s *Spec) any { return &s.EmbedDim }, low: 1, about: "Width of the token table (default H)."},
	{key: "need_weights", ptr: func(s *Spec) any { return &s.NeedWeights }, about: "nn.MultiheadAttention returns its weights: bmm and softmax instead of SDPA (torch-encoder)."},
	{key: "causal", ptr: func(s *Spec) any { return &s.Causal }, about: "Causal mask (torch-encoder)."},
	{key: "final_norm", ptr: func(s *Spec) any { return &s.FinalNorm }, about: "Norm after the last layer (torch-encoder and opt)."},
	{key: "ops", ptr: func(s *Spec) any { return &s.Ops }, about: "Ops of one block of arch custom: linear 4H or gelu or relu or layernorm or dropout 0.1 or attention or residual ..."},
	{key: "train.optimizer", ptr: func(s *Spec) any { return &s.Train.Optimizer }, enum: optimizer.Names(), about: "Optimizer (default adamw; PyTorch's foreach form).", flag: "optimizer", notes: formsOf(optimizer.Rows)},
	{key: "train.keep_logits", ptr: func(s *Spec) any { return &s.Train.KeepLogits }, about: "The caller holds the model output during backward (default true).", flag: "keep-logits", help: "the caller holds the model's output during backward"},
	{key: "train.loss_chunks", ptr: func(s *Spec) any { return &s.Train.LossChunks }, low: 1, about: "Parts in which head and loss are computed and recomputed (default 1).", flag: "loss-chunks", help: "`parts` in which head and loss of a causal language model are computed, and recomputed (default 1)"},
	{key: "train.grad_accum", ptr: func(s *Spec) any { return &s.Train.GradAccum }, low: 1, about: "Micro batches a step (default 1).", flag: "grad-accum", help: "micro `batches` a step"},
	{key: "train.finetune", ptr: func(s *Spec) any { return &s.Train.Finetune }, enum: []string{"full", "lora"}, about: "What is trained (default full; lora if lora is given).", flag: "lora"},
	{key: "train.lora.r", ptr: func(s *Spec) any { return &s.Train.LoRA.Rank }, low: 1, flag: "lora", help: "adapters: r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj"},
	{key: "train.lora.alpha", ptr: func(s *Spec) any { return &s.Train.LoRA.Alpha }, span: positive},
	{key: "train.lora.dropout", ptr: func(s *Spec) any { return &s.Train.LoRA.Dropout }},
	{key: "train.lora.dtype", ptr: func(s *Spec) any { return &s.Train.LoRA.DType }, enum: adapters},
	{key: "train.lora.targets", ptr: func(s *Spec) any { return &s.Train.LoRA.Targets }, flag: "lora"},
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
