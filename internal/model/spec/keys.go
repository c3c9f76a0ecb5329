package spec

import (
	"strings"

	"ckptplan/internal/document"
	"ckptplan/internal/optimizer"
)

// Field is one key of a spec document. The reader, the JSON schema (configs/model.schema.json), the help of the key's flag and
// its completion are made of it.
type Field struct {
	Key  string            // path in the document: train.lora.r
	Ptr  func(*Spec) any   // *int, *float64, *bool, *string, *Precision, *[]string or *[]int
	Low  int               // smallest count
	Enum []string          // accepted words
	Span document.RealSpan // accepted numbers of a *float64
	// About describes the key in the schema.
	About string
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
	for i := range Fields {
		f := &Fields[i]
		if f.flag != name || f.Key == "train.finetune" {
			continue
		}
		help = f.help
		for i, w := range f.Enum {
			switch {
			case i > 0 && i == len(f.Enum)-1:
				help += " or "
			case i > 0:
				help += ", "
			}
			help += w
			if n := f.notes[w]; n != "" {
				help += " (" + n + ")"
			}
		}
		return help, f.Enum
	}
	return "", nil
}

// FlagOf is the flag that sets a key, such as --batch, or "".
func FlagOf(key string) string {
	if key == "train.lora" {
		key = "train.lora.r"
	}
	if f := FieldOf(key); f != nil && f.flag != "" {
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
	floats      = []string{"fp32", "bf16", "fp16"}
)

// Fields are all keys, in the order of the Spec.
var Fields = []Field{
	{Key: "name", Ptr: func(s *Spec) any { return &s.Name }, About: "Name shown in tables."},
	{Key: "arch", Ptr: func(s *Spec) any { return &s.Arch }, About: "Model class: a named set of defaults (default gpt2)."},
	{Key: "L", Ptr: func(s *Spec) any { return &s.L }, Low: 1, About: "Number of layers."},
	{Key: "S", Ptr: func(s *Spec) any { return &s.S }, Low: 1, About: "Sequence length in tokens.", flag: "seq", help: "sequence length in `tokens`"},
	{Key: "H", Ptr: func(s *Spec) any { return &s.H }, Low: 1, About: "Hidden size."},
	{Key: "B", Ptr: func(s *Spec) any { return &s.B }, Low: 1, About: "Micro batch: sequences a forward pass.", flag: "batch", help: "micro batch: `sequences` a forward pass"},
	{Key: "heads", Ptr: func(s *Spec) any { return &s.Heads }, Low: 1, About: "Query heads."},
	{Key: "kv_heads", Ptr: func(s *Spec) any { return &s.KVHeads }, Low: 1, About: "Key and value heads (default heads)."},
	{Key: "head_dim", Ptr: func(s *Spec) any { return &s.HeadDim }, Low: 1, About: "Width of one head (default H/heads)."},
	{Key: "ffn", Ptr: func(s *Spec) any { return &s.FFN }, Low: 1, About: "Width of the MLP."},
	{Key: "vocab", Ptr: func(s *Spec) any { return &s.Vocab }, Low: 1, About: "Vocabulary size."},
	{Key: "decoder_L", Ptr: func(s *Spec) any { return &s.DecoderL }, Low: 1, About: "Decoder layers of an encoder-decoder model (default L)."},
	{Key: "decoder_S", Ptr: func(s *Spec) any { return &s.DecoderS }, Low: 1, About: "Decoder sequence length of an encoder-decoder model (default S).", flag: "decoder-seq", help: "decoder sequence length of an encoder-decoder model in `tokens` (default: that of the encoder)"},
	{Key: "dtype", Ptr: func(s *Spec) any { return &s.Precision }, Enum: precisions, About: "Precision of weights and activations; amp is fp32 weights under autocast.", flag: "precision", notes: notes{"amp-fp16": "amp: fp32 weights under autocast"}},
	{Key: "weights", Ptr: func(s *Spec) any { return &s.Weights }, Enum: floats, About: "Type of the parameters (default: as dtype says).", flag: "weights", help: "type of the parameters: "},
	{Key: "autocast", Ptr: func(s *Spec) any { return &s.Autocast }, Enum: []string{"bf16", "fp16", "off"}, About: "Type that autocast casts the inputs of matrix products to, or off (default: as dtype says).", flag: "autocast", help: "what autocast casts to: "},
	{Key: "attention", Ptr: func(s *Spec) any { return &s.Attention }, Enum: attentions, About: "Attention implementation (default sdpa).", flag: "attention", help: "attention: "},
	{Key: "checkpoint", Ptr: func(s *Spec) any { return &s.Checkpoint }, About: "Named strategy or plan file (default none)."},
	{Key: "norm", Ptr: func(s *Spec) any { return &s.Norm }, Enum: norms, About: "Normalisation: LayerNorm; RMSNorm composed as Hugging Face does; RMSNorm as one fused op.", flag: "norm", help: "norm: ", notes: composed("rmsnorm", "rmsnorm-fused")},
	{Key: "norm_order", Ptr: func(s *Spec) any { return &s.NormOrder }, Enum: []string{"pre", "post"}, About: "Norm before or after each sublayer (torch-encoder and opt)."},
	{Key: "plain_norm", Ptr: func(s *Spec) any { return &s.PlainNorm }, About: "Norms have no learned weight and shift (opt)."},
	{Key: "qk_norm", Ptr: func(s *Spec) any { return &s.QKNorm }, About: "Normalise queries and keys."},
	{Key: "activation", Ptr: func(s *Spec) any { return &s.Activation }, Enum: activations, About: "MLP activation.", flag: "activation", help: "MLP activation: ", notes: composed("gelu_new", "gelu_tanh")},
	{Key: "gated", Ptr: func(s *Spec) any { return &s.Gated }, About: "Gated MLP (SwiGLU or GeGLU, by the activation)."},
	{Key: "positions", Ptr: func(s *Spec) any { return &s.Positions }, Enum: []string{"learned", "rotary", "alibi", "relative", "sinusoidal", "none"}, About: "Position information."},
	{Key: "rotary_fraction", Ptr: func(s *Spec) any { return &s.Rotary }, Span: document.Share, About: "Share of head_dim that is rotated (default 1)."},
	{Key: "max_positions", Ptr: func(s *Spec) any { return &s.MaxS }, Low: 1, About: "Positions of the learned table (OPT's table has two rows more) or of the config."},
	{Key: "bias.qkv", Ptr: func(s *Spec) any { return &s.Bias.QKV }},
	{Key: "bias.out", Ptr: func(s *Spec) any { return &s.Bias.Out }},
	{Key: "bias.mlp", Ptr: func(s *Spec) any { return &s.Bias.MLP }},
	{Key: "bias.head", Ptr: func(s *Spec) any { return &s.Bias.Head }},
	{Key: "bias.norm", Ptr: func(s *Spec) any { return &s.Bias.Norm }},
	{Key: "dropout.embedding", Ptr: func(s *Spec) any { return &s.Dropout.Embedding }},
	{Key: "dropout.attention", Ptr: func(s *Spec) any { return &s.Dropout.Attention }},
	{Key: "dropout.residual", Ptr: func(s *Spec) any { return &s.Dropout.Residual }},
	{Key: "dropout.mlp", Ptr: func(s *Spec) any { return &s.Dropout.MLP }},
	{Key: "dropout.classifier", Ptr: func(s *Spec) any { return &s.Dropout.Classifier }},
	{Key: "tied", Ptr: func(s *Spec) any { return &s.Tied }, About: "Head shares the embedding's weight."},
	{Key: "parallel_residual", Ptr: func(s *Spec) any { return &s.ParallelResidual }, About: "Attention and MLP read the same layer input."},
	{Key: "normed_residual", Ptr: func(s *Spec) any { return &s.NormedResidual }, About: "Residuals are taken after the norms (bloom)."},
	{Key: "new_decoder", Ptr: func(s *Spec) any { return &s.NewDecoder }, About: "Falcon's new decoder architecture: keys and values beside the queries of their group and a norm for each parallel branch."},
	{Key: "shared_norm", Ptr: func(s *Spec) any { return &s.SharedNorm }, About: "One norm for both branches of Falcon's new decoder architecture (Falcon 2)."},
	{Key: "sliding_window", Ptr: func(s *Spec) any { return &s.SlidingWindow }, About: "Attention window in tokens of the layers that slide; 0 is none."},
	{Key: "layer_types", Ptr: func(s *Spec) any { return &s.LayerTypes }, Enum: []string{"full_attention", "sliding_attention"}, About: "full_attention or sliding_attention for each layer (default: all slide if sliding_window is set)."},
	{Key: "rotary_layers", Ptr: func(s *Spec) any { return &s.RotaryLayers }, About: "1 for a layer with rotary positions, 0 for one without (smollm3; default: every fourth is without)."},
	{Key: "logit_softcap", Ptr: func(s *Spec) any { return &s.LogitSoftcap }, About: "Logits pass tanh(x/c)*c before the loss (Gemma 2)."},
	{Key: "attention_softcap", Ptr: func(s *Spec) any { return &s.AttnSoftcap }, About: "Attention scores pass tanh(x/c)*c (Gemma 2; eager only)."},
	{Key: "unscaled_attention", Ptr: func(s *Spec) any { return &s.UnscaledAttn }, About: "Attention scores are not divided by the root of head_dim (gpt2)."},
	{Key: "layer_scaled_attention", Ptr: func(s *Spec) any { return &s.LayerScaledAttn }, About: "Attention scores are divided by the number of the layer from 1 on (gpt2)."},
	{Key: "upcast_attention", Ptr: func(s *Spec) any { return &s.UpcastAttn }, About: "Attention scores and weights are made in fp32 (gpt2; eager only)."},
	{Key: "logit_scale", Ptr: func(s *Spec) any { return &s.LogitScale }, About: "Logits (Cohere and Granite) or the decoder's output (T5) are multiplied by a constant."},
	{Key: "moe.experts", Ptr: func(s *Spec) any { return &s.MoE.Experts }, Low: 1},
	{Key: "moe.top_k", Ptr: func(s *Spec) any { return &s.MoE.TopK }, Low: 1},
	{Key: "moe.ffn", Ptr: func(s *Spec) any { return &s.MoE.FFN }, Low: 1},
	{Key: "moe.shared_ffn", Ptr: func(s *Spec) any { return &s.MoE.SharedFFN }, Low: 1, About: "Width of the MLP that all tokens pass beside their experts."},
	{Key: "moe.sparse_step", Ptr: func(s *Spec) any { return &s.MoE.SparseStep }, Low: 1},
	{Key: "moe.dense_layers", Ptr: func(s *Spec) any { return &s.MoE.DenseLayers }},
	{Key: "moe.norm_top_k", Ptr: func(s *Spec) any { return &s.MoE.NormTopK }},
	{Key: "image.size", Ptr: func(s *Spec) any { return &s.Image.Size }, Low: 1},
	{Key: "image.patch", Ptr: func(s *Spec) any { return &s.Image.Patch }, Low: 1},
	{Key: "image.channels", Ptr: func(s *Spec) any { return &s.Image.Channels }, Low: 1},
	{Key: "labels", Ptr: func(s *Spec) any { return &s.Labels }, Low: 1, About: "Classes of a classifier head."},
	{Key: "labels_of", Ptr: func(s *Spec) any { return &s.LabelsOf }, Enum: []string{"sequence", "tokens", "span"}, About: "What a classifier labels: the sequence (default); every token; the two ends of a span (question answering)."},
	{Key: "token_types", Ptr: func(s *Spec) any { return &s.Types }, Low: 1, About: "Token types (bert and roberta)."},
	{Key: "embedding_dim", Ptr: func(s *Spec) any { return &s.EmbedDim }, Low: 1, About: "Width of the token table (default H)."},
	{Key: "need_weights", Ptr: func(s *Spec) any { return &s.NeedWeights }, About: "nn.MultiheadAttention returns its weights: bmm and softmax instead of SDPA (torch-encoder)."},
	{Key: "causal", Ptr: func(s *Spec) any { return &s.Causal }, About: "Causal mask (torch-encoder)."},
	{Key: "final_norm", Ptr: func(s *Spec) any { return &s.FinalNorm }, About: "Norm after the last layer (torch-encoder and opt)."},
	{Key: "ops", Ptr: func(s *Spec) any { return &s.Ops }, About: "Ops of one block of arch custom: linear 4H or gelu or relu or layernorm or dropout 0.1 or attention or residual ..."},
	{Key: "train.optimizer", Ptr: func(s *Spec) any { return &s.Train.Optimizer }, Enum: optimizer.Names(), About: "Optimizer (default adamw; PyTorch's foreach form).", flag: "optimizer", notes: formsOf(optimizer.Rows)},
	{Key: "train.keep_logits", Ptr: func(s *Spec) any { return &s.Train.KeepLogits }, About: "The caller holds the model output during backward (default true).", flag: "keep-logits", help: "the caller holds the model's output during backward"},
	{Key: "train.loss_chunks", Ptr: func(s *Spec) any { return &s.Train.LossChunks }, Low: 1, About: "Parts in which head and loss are computed and recomputed (default 1).", flag: "loss-chunks", help: "`parts` in which head and loss of a causal language model are computed, and recomputed (default 1)"},
	{Key: "train.grad_accum", Ptr: func(s *Spec) any { return &s.Train.GradAccum }, Low: 1, About: "Micro batches a step (default 1).", flag: "grad-accum", help: "micro `batches` a step"},
	{Key: "train.finetune", Ptr: func(s *Spec) any { return &s.Train.Finetune }, Enum: []string{"full", "lora"}, About: "What is trained (default full; lora if lora is given).", flag: "lora"},
	{Key: "train.lora.r", Ptr: func(s *Spec) any { return &s.Train.LoRA.Rank }, Low: 1, flag: "lora", help: "adapters: r=16,alpha=32,dropout=0,dtype=fp32,targets=q_proj+v_proj, or an adapter_config.json of peft"},
	{Key: "train.lora.alpha", Ptr: func(s *Spec) any { return &s.Train.LoRA.Alpha }, Span: document.Positive},
	{Key: "train.lora.dropout", Ptr: func(s *Spec) any { return &s.Train.LoRA.Dropout }},
	{Key: "train.lora.dtype", Ptr: func(s *Spec) any { return &s.Train.LoRA.DType }, Enum: floats},
	{Key: "train.lora.targets", Ptr: func(s *Spec) any { return &s.Train.LoRA.Targets }, flag: "lora"},
	{Key: "train.lora.base", Ptr: func(s *Spec) any { return &s.Train.LoRA.Base }, Enum: []string{"nf4", "nf4-double"}, About: "Quantisation of the frozen linear layers (QLoRA, bitsandbytes): 4-bit NormalFloat, with scales in fp32 or quantised again.", flag: "qlora", help: "adapters on a base in 4 bits: r=16,… as --lora has it, and base="},
	{Key: "parallel.dp", Ptr: func(s *Spec) any { return &s.Parallel.DP }, Low: 1},
	{Key: "parallel.zero", Ptr: func(s *Spec) any { return &s.Parallel.Zero }},
	{Key: "parallel.tp", Ptr: func(s *Spec) any { return &s.Parallel.TP }, Low: 1},
	{Key: "parallel.sp", Ptr: func(s *Spec) any { return &s.Parallel.SP }},
	{Key: "parallel.cp", Ptr: func(s *Spec) any { return &s.Parallel.CP }, Low: 1},
	{Key: "parallel.pp", Ptr: func(s *Spec) any { return &s.Parallel.PP }, Low: 1},
	{Key: "parallel.ep", Ptr: func(s *Spec) any { return &s.Parallel.EP }, Low: 1},
}

// Required are the keys without a default.
var Required = []string{"L", "S", "H", "B", "heads", "dtype"}

// FieldOf is the row of a key, or nil.
func FieldOf(key string) *Field {
	for i := range Fields {
		if Fields[i].Key == key {
			return &Fields[i]
		}
	}
	return nil
}

// section is true for a key that holds a map of keys, such as train.
func section(key string) bool {
	for i := range Fields {
		if strings.HasPrefix(Fields[i].Key, key) && len(Fields[i].Key) > len(key) && Fields[i].Key[len(key)] == '.' {
			return true
		}
	}
	return false
}

// children are the names directly inside a section; "" is the document.
func children(of string) []string {
	var names []string
	for i := range Fields {
		rest := Fields[i].Key
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

// OpenSection makes the optional part of s that a section fills.
func OpenSection(s *Spec, section string) {
	switch {
	case section == "moe" && s.MoE == nil:
		s.MoE = &MoE{}
	case section == "image" && s.Image == nil:
		s.Image = &Image{}
	case section == "train.lora" && s.Train.LoRA == nil:
		s.Train.LoRA = &LoRA{}
	}
}

// HasSection is false if the optional part of s that holds f is missing.
func HasSection(s *Spec, f *Field) bool {
	switch {
	case strings.HasPrefix(f.Key, "moe."):
		return s.MoE != nil
	case strings.HasPrefix(f.Key, "image."):
		return s.Image != nil
	case strings.HasPrefix(f.Key, "train.lora."):
		return s.Train.LoRA != nil
	}
	return true
}
