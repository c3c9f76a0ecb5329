// Package spec holds what the user wrote: a model and the training step it is part of. Each key of a spec document is one
// row of a table (keys.go), from which the reader, the JSON schema, the help of its flag and its completion are made.
package spec

import "ckptplan/internal/model/dtype"

// Spec is what the user wrote: a model and the training step it is part of. Load and LoadHF return it with every
// field filled: what the document left out has the default of its arch, and Spec.Defaults names what was filled in.
// Keys whose default may be true or above zero are written even when they are false or zero, so that a written spec
// reads back as the same spec.
//
// Sizes are counts (not bytes). Dropout fields are probabilities in [0, 1).
type Spec struct {
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Arch names a set of defaults and the class whose forward pass is modelled; see Archs.
	Arch string `yaml:"arch,omitempty" json:"arch,omitempty"`

	L        int `yaml:"L" json:"L"`
	S        int `yaml:"S" json:"S"`
	H        int `yaml:"H" json:"H"`
	B        int `yaml:"B" json:"B"`
	Heads    int `yaml:"heads" json:"heads"`
	KVHeads  int `yaml:"kv_heads,omitempty" json:"kv_heads,omitempty"`
	HeadDim  int `yaml:"head_dim,omitempty" json:"head_dim,omitempty"`
	FFN      int `yaml:"ffn,omitempty" json:"ffn,omitempty"`
	Vocab    int `yaml:"vocab,omitempty" json:"vocab,omitempty"`
	DecoderL int `yaml:"decoder_L,omitempty" json:"decoder_L,omitempty"`
	DecoderS int `yaml:"decoder_S,omitempty" json:"decoder_S,omitempty"`

	// Precision is fp32, bf16, fp16 (weights and activations alike), amp-bf16 or amp-fp16 (fp32 weights under autocast).
	Precision dtype.Precision `yaml:"dtype" json:"dtype"`
	// Attention is eager, sdpa (flash or efficient, as CUDA's dispatcher picks), math, or flash2 (the flash-attn package).
	Attention string `yaml:"attention,omitempty" json:"attention,omitempty"`
	// Checkpoint is a named strategy or a plan file; estimate uses it when no --strategy is given.
	Checkpoint string `yaml:"checkpoint,omitempty" json:"checkpoint,omitempty"`

	Norm       string  `yaml:"norm,omitempty" json:"norm,omitempty"`
	NormOrder  string  `yaml:"norm_order,omitempty" json:"norm_order,omitempty"`
	PlainNorm  bool    `yaml:"plain_norm,omitempty" json:"plain_norm,omitempty"`
	QKNorm     bool    `yaml:"qk_norm" json:"qk_norm"`
	Activation string  `yaml:"activation,omitempty" json:"activation,omitempty"`
	Gated      bool    `yaml:"gated" json:"gated"`
	Positions  string  `yaml:"positions,omitempty" json:"positions,omitempty"`
	Rotary     float64 `yaml:"rotary_fraction,omitempty" json:"rotary_fraction,omitempty"`
	MaxS       int     `yaml:"max_positions,omitempty" json:"max_positions,omitempty"`

	Bias             Bias     `yaml:"bias" json:"bias"`
	Dropout          Dropout  `yaml:"dropout" json:"dropout"`
	Tied             bool     `yaml:"tied" json:"tied"`
	ParallelResidual bool     `yaml:"parallel_residual" json:"parallel_residual"`
	NormedResidual   bool     `yaml:"normed_residual,omitempty" json:"normed_residual,omitempty"`
	NewDecoder       bool     `yaml:"new_decoder" json:"new_decoder"`
	SharedNorm       bool     `yaml:"shared_norm,omitempty" json:"shared_norm,omitempty"`
	SlidingWindow    int      `yaml:"sliding_window" json:"sliding_window"`
	LayerTypes       []string `yaml:"layer_types,omitempty" json:"layer_types,omitempty"`
	RotaryLayers     []int    `yaml:"rotary_layers,omitempty" json:"rotary_layers,omitempty"`
	LogitSoftcap     bool     `yaml:"logit_softcap" json:"logit_softcap"`
	AttnSoftcap      bool     `yaml:"attention_softcap" json:"attention_softcap"`
	UnscaledAttn     bool     `yaml:"unscaled_attention,omitempty" json:"unscaled_attention,omitempty"`
	LayerScaledAttn  bool     `yaml:"layer_scaled_attention,omitempty" json:"layer_scaled_attention,omitempty"`
	UpcastAttn       bool     `yaml:"upcast_attention,omitempty" json:"upcast_attention,omitempty"`
	LogitScale       bool     `yaml:"logit_scale" json:"logit_scale"`

	MoE   *MoE   `yaml:"moe,omitempty" json:"moe,omitempty"`
	Image *Image `yaml:"image,omitempty" json:"image,omitempty"`
	// Labels is the number of classes of a classifier head (vit, torch-encoder, custom).
	Labels int `yaml:"labels,omitempty" json:"labels,omitempty"`
	// LabelsOf is what a classifier labels: the sequence, every token, or the first and the last token of a span.
	LabelsOf string `yaml:"labels_of,omitempty" json:"labels_of,omitempty"`
	// Types is the number of token types of bert and roberta embeddings.
	Types int `yaml:"token_types,omitempty" json:"token_types,omitempty"`
	// EmbedDim is the width of the token table when it differs from H (OPT-350m's word_embed_proj_dim).
	EmbedDim int `yaml:"embedding_dim,omitempty" json:"embedding_dim,omitempty"`
	// NeedWeights is nn.MultiheadAttention's need_weights (torch-encoder): true takes the bmm + softmax path.
	NeedWeights bool `yaml:"need_weights,omitempty" json:"need_weights,omitempty"`
	// Causal is a torch-encoder's causal mask.
	Causal bool `yaml:"causal,omitempty" json:"causal,omitempty"`
	// FinalNorm is true by default for an opt whose norms come before the sublayers.
	FinalNorm bool `yaml:"final_norm" json:"final_norm"`
	// Ops lists the ops of one block of arch custom, such as [linear 4H, gelu, linear H].
	Ops []string `yaml:"ops,omitempty" json:"ops,omitempty"`

	Train    Train    `yaml:"train,omitempty" json:"train,omitempty"`
	Parallel Parallel `yaml:"parallel,omitempty" json:"parallel,omitempty"`

	// Defaults lists, in words, the values that the document left out: "vocab 50257", "dropout 0.1".
	Defaults []string `yaml:"-" json:"-"`
	// Warnings are doubts about a usable spec (user-visible footnotes).
	Warnings []string `yaml:"-" json:"-"`
}

// Bias says which projections have a bias vector.
type Bias struct {
	QKV  bool `yaml:"qkv" json:"qkv"`   // query, key and value projections
	Out  bool `yaml:"out" json:"out"`   // attention output projection
	MLP  bool `yaml:"mlp" json:"mlp"`   // MLP projections
	Head bool `yaml:"head" json:"head"` // language-model head
	Norm bool `yaml:"norm" json:"norm"` // LayerNorm shift
}

// Dropout holds the drop probabilities by place.
type Dropout struct {
	Embedding float64 `yaml:"embedding" json:"embedding"` // after the embeddings
	Attention float64 `yaml:"attention" json:"attention"` // on attention probabilities
	Residual  float64 `yaml:"residual" json:"residual"`   // on each sublayer's output (hidden dropout)
	MLP       float64 `yaml:"mlp" json:"mlp"`             // inside the MLP, after the activation (T5, torch-encoder)
	// Classifier is before the head of a BERT classifier; by default Residual.
	Classifier float64 `yaml:"classifier" json:"classifier"`
}

// MoE describes a mixture-of-experts MLP: each token goes to TopK of Experts MLPs of width FFN.
type MoE struct {
	Experts int `yaml:"experts" json:"experts"`
	TopK    int `yaml:"top_k" json:"top_k"`
	FFN     int `yaml:"ffn,omitempty" json:"ffn,omitempty"` // default Spec.FFN
	// SharedFFN is the width of an MLP that all tokens pass beside their experts (Qwen2-MoE).
	SharedFFN int `yaml:"shared_ffn,omitempty" json:"shared_ffn,omitempty"`
	// DenseEvery and DenseLayers: layers with a plain MLP (Qwen3-MoE's decoder_sparse_step and mlp_only_layers).
	SparseStep  int   `yaml:"sparse_step,omitempty" json:"sparse_step,omitempty"`
	DenseLayers []int `yaml:"dense_layers,omitempty" json:"dense_layers,omitempty"`
	NormTopK    bool  `yaml:"norm_top_k" json:"norm_top_k"` // routing weights are renormalised
}

// Image describes the input of a vision transformer.
type Image struct {
	Size     int `yaml:"size" json:"size"`   // pixels a side
	Patch    int `yaml:"patch" json:"patch"` // pixels a side
	Channels int `yaml:"channels,omitempty" json:"channels,omitempty"`
}

// Train holds the training settings.
type Train struct {
	// Optimizer is the name of a row of package optimizer.
	Optimizer string `yaml:"optimizer,omitempty" json:"optimizer,omitempty"`
	// KeepLogits is true if the caller still holds the model's output during backward (outputs.logits).
	KeepLogits bool `yaml:"keep_logits" json:"keep_logits"`
	// LossChunks computes head and loss of a causal language model over this many parts of the tokens, each under a
	// checkpoint of its own, so that the logits of one part exist at a time. 1: in one piece, as the model class does.
	LossChunks int `yaml:"loss_chunks,omitempty" json:"loss_chunks,omitempty"`
	// GradAccum is the number of micro-batches a step; gradients stay between them.
	GradAccum int    `yaml:"grad_accum,omitempty" json:"grad_accum,omitempty"`
	Finetune  string `yaml:"finetune,omitempty" json:"finetune,omitempty"`
	LoRA      *LoRA  `yaml:"lora,omitempty" json:"lora,omitempty"`
}

// LoRA describes peft's low-rank adapters on frozen linear layers.
type LoRA struct {
	Rank    int      `yaml:"r" json:"r"`
	Alpha   float64  `yaml:"alpha,omitempty" json:"alpha,omitempty"`
	Dropout float64  `yaml:"dropout" json:"dropout"`
	DType   string   `yaml:"dtype,omitempty" json:"dtype,omitempty"`     // default fp32, as peft makes them
	Targets []string `yaml:"targets,omitempty" json:"targets,omitempty"` // module names, such as q_proj
	// Base is how the frozen linear layers are quantised (QLoRA): nf4, or nf4-double with quantised scales; empty: they are not.
	Base string `yaml:"base,omitempty" json:"base,omitempty"`
}

// Parallel holds the parallel degrees. Anything but 1 (and zero: 0) is refused: it is not modelled.
type Parallel struct {
	DP   int  `yaml:"dp,omitempty" json:"dp,omitempty"`
	Zero int  `yaml:"zero,omitempty" json:"zero,omitempty"`
	TP   int  `yaml:"tp,omitempty" json:"tp,omitempty"`
	SP   bool `yaml:"sp,omitempty" json:"sp,omitempty"`
	CP   int  `yaml:"cp,omitempty" json:"cp,omitempty"`
	PP   int  `yaml:"pp,omitempty" json:"pp,omitempty"`
	EP   int  `yaml:"ep,omitempty" json:"ep,omitempty"`
}
