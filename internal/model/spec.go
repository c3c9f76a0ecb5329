package model

// Spec is what the user wrote: a model and the training step it is part of. Load and LoadHF return it with every
// field filled: what the document left out has the default of its arch, and Spec.Defaults names what was filled in.
// Keys whose default may be true or above zero are written even when they are false or zero, so that a written spec
// reads back as the same spec.
//
// Sizes are counts (not bytes). Dropout fields are probabilities in [0, 1).
type Spec struct {
	Name string `yaml:"name,omitempty" json:"name,omitempty" jsonschema:"description=Name shown in tables."`
	// Arch names a set of defaults and the class whose forward pass is modelled; see Archs.
	Arch string `yaml:"arch,omitempty" json:"arch,omitempty" jsonschema:"description=Model class: a named set of defaults (default gpt2)."`

	L        int `yaml:"L" json:"L" jsonschema:"minimum=1,description=Number of layers."`
	S        int `yaml:"S" json:"S" jsonschema:"minimum=1,description=Sequence length in tokens."`
	H        int `yaml:"H" json:"H" jsonschema:"minimum=1,description=Hidden size."`
	B        int `yaml:"B" json:"B" jsonschema:"minimum=1,description=Micro batch: sequences a forward pass."`
	Heads    int `yaml:"heads" json:"heads" jsonschema:"minimum=1,description=Query heads."`
	KVHeads  int `yaml:"kv_heads,omitempty" json:"kv_heads,omitempty" jsonschema:"minimum=1,description=Key and value heads (default heads)."`
	HeadDim  int `yaml:"head_dim,omitempty" json:"head_dim,omitempty" jsonschema:"minimum=1,description=Width of one head (default H/heads)."`
	FFN      int `yaml:"ffn,omitempty" json:"ffn,omitempty" jsonschema:"minimum=1,description=Width of the MLP."`
	Vocab    int `yaml:"vocab,omitempty" json:"vocab,omitempty" jsonschema:"minimum=1,description=Vocabulary size."`
	DecoderL int `yaml:"decoder_L,omitempty" json:"decoder_L,omitempty" jsonschema:"minimum=1,description=Decoder layers of an encoder-decoder model (default L)."`
	DecoderS int `yaml:"decoder_S,omitempty" json:"decoder_S,omitempty" jsonschema:"minimum=1,description=Decoder sequence length of an encoder-decoder model (default S)."`

	// Precision is fp32, bf16, fp16 (weights and activations alike), amp-bf16 or amp-fp16 (fp32 weights under autocast).
	Precision Precision `yaml:"dtype" json:"dtype" jsonschema:"enum=fp32,enum=bf16,enum=fp16,enum=amp-bf16,enum=amp-fp16,description=Precision of weights and activations; amp is fp32 weights under autocast."`
	// Attention is eager, sdpa (flash or efficient, as CUDA's dispatcher picks), math, or flash2 (the flash-attn package).
	Attention string `yaml:"attention,omitempty" json:"attention,omitempty" jsonschema:"enum=eager,enum=sdpa,enum=math,enum=flash2,description=Attention implementation (default sdpa)."`
	// Checkpoint is a named strategy or a plan file; estimate uses it when no --strategy is given.
	Checkpoint string `yaml:"checkpoint,omitempty" json:"checkpoint,omitempty" jsonschema:"description=Named strategy or plan file (default none)."`

	Norm       string  `yaml:"norm,omitempty" json:"norm,omitempty" jsonschema:"enum=layernorm,enum=rmsnorm,enum=rmsnorm-fused,description=Normalisation: LayerNorm; RMSNorm composed as Hugging Face does; RMSNorm as one fused op."`
	NormOrder  string  `yaml:"norm_order,omitempty" json:"norm_order,omitempty" jsonschema:"enum=pre,enum=post,description=Norm before or after each sublayer (torch-encoder and opt)."`
	PlainNorm  bool    `yaml:"plain_norm,omitempty" json:"plain_norm,omitempty" jsonschema:"description=Norms have no learned weight and shift (opt)."`
	QKNorm     bool    `yaml:"qk_norm" json:"qk_norm" jsonschema:"description=Normalise queries and keys."`
	Activation string  `yaml:"activation,omitempty" json:"activation,omitempty" jsonschema:"enum=gelu,enum=gelu_new,enum=gelu_tanh,enum=gelu_fast,enum=silu,enum=relu,enum=tanh,enum=quick_gelu,description=MLP activation."`
	Gated      bool    `yaml:"gated" json:"gated" jsonschema:"description=Gated MLP (SwiGLU or GeGLU, by the activation)."`
	Positions  string  `yaml:"positions,omitempty" json:"positions,omitempty" jsonschema:"enum=learned,enum=rotary,enum=alibi,enum=relative,enum=sinusoidal,enum=none,description=Position information."`
	Rotary     float64 `yaml:"rotary_fraction,omitempty" json:"rotary_fraction,omitempty" jsonschema:"description=Share of head_dim that is rotated (default 1)."`
	MaxS       int     `yaml:"max_positions,omitempty" json:"max_positions,omitempty" jsonschema:"minimum=1,description=Positions of the learned table (OPT's table has two rows more) or of the config."`

	Bias             Bias     `yaml:"bias" json:"bias"`
	Dropout          Dropout  `yaml:"dropout" json:"dropout"`
	Tied             bool     `yaml:"tied" json:"tied" jsonschema:"description=Head shares the embedding's weight."`
	ParallelResidual bool     `yaml:"parallel_residual" json:"parallel_residual" jsonschema:"description=Attention and MLP read the same layer input."`
	NormedResidual   bool     `yaml:"normed_residual,omitempty" json:"normed_residual,omitempty" jsonschema:"description=Residuals are taken after the norms (bloom)."`
	NewDecoder       bool     `yaml:"new_decoder" json:"new_decoder" jsonschema:"description=Falcon's new decoder architecture: keys and values beside the queries of their group and a norm for each parallel branch."`
	SharedNorm       bool     `yaml:"shared_norm,omitempty" json:"shared_norm,omitempty" jsonschema:"description=One norm for both branches of Falcon's new decoder architecture (Falcon 2)."`
	SlidingWindow    int      `yaml:"sliding_window" json:"sliding_window" jsonschema:"minimum=0,description=Attention window in tokens of the layers that slide; 0 is none."`
	LayerTypes       []string `yaml:"layer_types,omitempty" json:"layer_types,omitempty" jsonschema:"description=full_attention or sliding_attention for each layer (default: all slide if sliding_window is set)."`
	LogitSoftcap     bool     `yaml:"logit_softcap" json:"logit_softcap" jsonschema:"description=Logits pass tanh(x/c)*c before the loss (Gemma 2)."`
	AttnSoftcap      bool     `yaml:"attention_softcap" json:"attention_softcap" jsonschema:"description=Attention scores pass tanh(x/c)*c (Gemma 2; eager only)."`
	UnscaledAttn     bool     `yaml:"unscaled_attention,omitempty" json:"unscaled_attention,omitempty" jsonschema:"description=Attention scores are not divided by the root of head_dim (gpt2)."`
	LayerScaledAttn  bool     `yaml:"layer_scaled_attention,omitempty" json:"layer_scaled_attention,omitempty" jsonschema:"description=Attention scores are divided by the number of the layer from 1 on (gpt2)."`
	UpcastAttn       bool     `yaml:"upcast_attention,omitempty" json:"upcast_attention,omitempty" jsonschema:"description=Attention scores and weights are made in fp32 (gpt2; eager only)."`
	LogitScale       bool     `yaml:"logit_scale" json:"logit_scale" jsonschema:"description=Logits (Cohere and Granite) or the decoder's output (T5) are multiplied by a constant."`

	MoE   *MoE   `yaml:"moe,omitempty" json:"moe,omitempty"`
	Image *Image `yaml:"image,omitempty" json:"image,omitempty"`
	// Labels is the number of classes of a classifier head (vit, torch-encoder, custom).
	Labels int `yaml:"labels,omitempty" json:"labels,omitempty" jsonschema:"minimum=1,description=Classes of a classifier head."`
	// LabelsOf is what is labelled (bert, roberta): the sequence, every token, or the first and the last token of a span.
	LabelsOf string `yaml:"labels_of,omitempty" json:"labels_of,omitempty" jsonschema:"enum=sequence,enum=tokens,enum=span,description=What BERT and RoBERTa label: the sequence (default); every token; the two ends of a span (question answering)."`
	// Types is the number of token types of bert and roberta embeddings.
	Types int `yaml:"token_types,omitempty" json:"token_types,omitempty" jsonschema:"minimum=1,description=Token types (bert and roberta)."`
	// EmbedDim is the width of the token table when it differs from H (OPT-350m's word_embed_proj_dim).
	EmbedDim int `yaml:"embedding_dim,omitempty" json:"embedding_dim,omitempty" jsonschema:"minimum=1,description=Width of the token table (default H)."`
	// NeedWeights is nn.MultiheadAttention's need_weights (torch-encoder): true takes the bmm + softmax path.
	NeedWeights bool `yaml:"need_weights,omitempty" json:"need_weights,omitempty" jsonschema:"description=nn.MultiheadAttention returns its weights: bmm and softmax instead of SDPA (torch-encoder)."`
	// Causal is a torch-encoder's causal mask.
	Causal bool `yaml:"causal,omitempty" json:"causal,omitempty" jsonschema:"description=Causal mask (torch-encoder)."`
	// FinalNorm is true by default for an opt whose norms come before the sublayers.
	FinalNorm bool `yaml:"final_norm" json:"final_norm" jsonschema:"description=Norm after the last layer (torch-encoder and opt)."`
	// Ops lists the ops of one block of arch custom, such as [linear 4H, gelu, linear H].
	Ops []string `yaml:"ops,omitempty" json:"ops,omitempty" jsonschema:"description=Ops of one block of arch custom: linear 4H or gelu or relu or layernorm or dropout 0.1 or attention or residual ..."`

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
	Experts int `yaml:"experts" json:"experts" jsonschema:"minimum=1"`
	TopK    int `yaml:"top_k" json:"top_k" jsonschema:"minimum=1"`
	FFN     int `yaml:"ffn,omitempty" json:"ffn,omitempty" jsonschema:"minimum=1"` // default Spec.FFN
	// DenseEvery and DenseLayers: layers with a plain MLP (Qwen3-MoE's decoder_sparse_step and mlp_only_layers).
	SparseStep  int   `yaml:"sparse_step,omitempty" json:"sparse_step,omitempty" jsonschema:"minimum=1"`
	DenseLayers []int `yaml:"dense_layers,omitempty" json:"dense_layers,omitempty"`
	NormTopK    bool  `yaml:"norm_top_k" json:"norm_top_k"` // routing weights are renormalised
}

// Image describes the input of a vision transformer.
type Image struct {
	Size     int `yaml:"size" json:"size" jsonschema:"minimum=1"`   // pixels a side
	Patch    int `yaml:"patch" json:"patch" jsonschema:"minimum=1"` // pixels a side
	Channels int `yaml:"channels,omitempty" json:"channels,omitempty" jsonschema:"minimum=1"`
}

// Train holds the training settings.
type Train struct {
	// Optimizer is the name of a row of package optimizer.
	Optimizer string `yaml:"optimizer,omitempty" json:"optimizer,omitempty" jsonschema:"description=Optimizer (default adamw; PyTorch's foreach form)."`
	// KeepLogits is true if the caller still holds the model's output during backward (outputs.logits).
	KeepLogits bool `yaml:"keep_logits" json:"keep_logits" jsonschema:"description=The caller holds the model output during backward (default true)."`
	// LossChunks computes head and loss of a causal language model over this many parts of the tokens, each under a
	// checkpoint of its own, so that the logits of one part exist at a time. 1: in one piece, as the model class does.
	LossChunks int `yaml:"loss_chunks,omitempty" json:"loss_chunks,omitempty" jsonschema:"minimum=1,description=Parts in which head and loss are computed and recomputed (default 1)."`
	// GradAccum is the number of micro-batches a step; gradients stay between them.
	GradAccum int    `yaml:"grad_accum,omitempty" json:"grad_accum,omitempty" jsonschema:"minimum=1,description=Micro batches a step (default 1)."`
	Finetune  string `yaml:"finetune,omitempty" json:"finetune,omitempty" jsonschema:"enum=full,enum=lora,description=What is trained (default full; lora if lora is given)."`
	LoRA      *LoRA  `yaml:"lora,omitempty" json:"lora,omitempty"`
}

// LoRA describes peft's low-rank adapters on frozen linear layers.
type LoRA struct {
	Rank    int      `yaml:"r" json:"r" jsonschema:"minimum=1"`
	Alpha   float64  `yaml:"alpha,omitempty" json:"alpha,omitempty"`
	Dropout float64  `yaml:"dropout" json:"dropout"`
	DType   string   `yaml:"dtype,omitempty" json:"dtype,omitempty" jsonschema:"enum=fp32,enum=bf16,enum=fp16"` // default fp32, as peft makes them
	Targets []string `yaml:"targets,omitempty" json:"targets,omitempty"`                                        // module names, such as q_proj
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
