package spec

import (
	"maps"
	"slices"
)

// Aliases are the names that trainers and configs use for a key of the spec.
var Aliases = map[string]string{
	"num_layers": "L", "n_layer": "L", "n_layers": "L", "num_hidden_layers": "L", "layers": "L", "depth": "L", "nlayers": "L",
	"hidden_size": "H", "n_embd": "H", "d_model": "H", "hidden": "H", "dim": "H", "n_embed": "H", "embed_dim": "H", "hidden_dim": "H",
	"seq_len": "S", "seq": "S", "seq_length": "S", "sequence_length": "S", "max_length": "S", "max_seq_length": "S",
	"max_seq_len": "S", "block_size": "S", "context_length": "S", "cutoff_len": "S", "sequence_len": "S", "sequence": "S",
	"batch_size": "B", "batch": "B", "micro_batch": "B", "micro_batch_size": "B", "per_device_train_batch_size": "B",
	"mbs": "B", "local_batch_size": "B", "bs": "B",
	"n_head": "heads", "n_heads": "heads", "num_heads": "heads", "num_attention_heads": "heads", "attention_heads": "heads",
	"num_key_value_heads": "kv_heads", "n_kv_heads": "kv_heads", "num_kv_heads": "kv_heads", "num_query_groups": "kv_heads",
	"kv_channels": "head_dim", "d_kv": "head_dim", "d_head": "head_dim",
	"d_ff": "ffn", "intermediate_size": "ffn", "ffn_dim": "ffn", "n_inner": "ffn", "ffn_hidden_size": "ffn", "mlp_dim": "ffn",
	"dim_feedforward": "ffn", "ffn_size": "ffn",
	"vocab_size": "vocab", "vocabulary": "vocab", "vocabulary_size": "vocab", "padded_vocab_size": "vocab",
	"torch_dtype": "dtype", "mixed_precision": "dtype",
	"model_type": "arch", "architecture": "arch", "model": "arch",
	"attn": "attention", "attn_implementation": "attention", "attention_implementation": "attention", "attn_impl": "attention",
	"hidden_act": "activation", "act": "activation", "activation_function": "activation",
	"tie_word_embeddings": "tied", "tie_embeddings": "tied", "tied_embeddings": "tied", "untied": "tied: false",
	"max_position_embeddings": "max_positions", "n_positions": "max_positions",
	"gradient_checkpointing": "checkpoint", "activation_checkpointing": "checkpoint", "recompute": "checkpoint",
	"remat": "checkpoint", "ac": "checkpoint", "strategy": "checkpoint",
	"optimizer": "train.optimizer", "keep_logits": "train.keep_logits", "grad_accum": "train.grad_accum", "loss_chunks": "train.loss_chunks",
	"gradient_accumulation_steps": "train.grad_accum", "finetune": "train.finetune", "lora": "train.lora",
	"tp": "parallel.tp", "dp": "parallel.dp", "pp": "parallel.pp", "cp": "parallel.cp", "ep": "parallel.ep", "zero": "parallel.zero",
	"num_experts": "moe.experts", "num_local_experts": "moe.experts", "num_experts_per_tok": "moe.top_k", "experts": "moe.experts",
	"moe_intermediate_size": "moe.ffn", "image_size": "image.size", "patch_size": "image.patch",
	"num_labels": "labels", "type_vocab_size": "token_types", "norm_first": "norm_order: pre",
	"rank": "r", "lora_r": "r", "lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets",
}

// aliasNames are the names in aliases, in a fixed order.
func aliasNames() []string { return slices.Sorted(maps.Keys(Aliases)) }
