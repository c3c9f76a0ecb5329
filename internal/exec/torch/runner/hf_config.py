"""A spec's fields as keys of a Hugging Face config: what a preset's model class is built from."""

SIZES = {
    "num_hidden_layers": "L", "hidden_size": "H", "num_attention_heads": "heads", "vocab_size": "vocab", "intermediate_size": "ffn",
    "hidden_act": "activation", "max_position_embeddings": "max_positions",
}
GROUPS = {"num_key_value_heads": "kv_heads", "head_dim": "head_dim", "attention_dropout": "dropout.attention"}
TIED = {"tie_word_embeddings": "tied"}
WINDOW = {"sliding_window": "sliding_window"}
QKV_BIAS = {"attention_bias": "bias.qkv"}
BERT = {
    **SIZES, **TIED, "hidden_dropout_prob": "dropout.residual", "attention_probs_dropout_prob": "dropout.attention", "type_vocab_size": "token_types",
    "classifier_dropout": "dropout.classifier",
}
DECODER = {**SIZES, **GROUPS, **TIED}

KEYS = {
    "gpt2": {
        "n_layer": "L", "n_embd": "H", "n_head": "heads", "n_inner": "ffn", "n_positions": "max_positions", "vocab_size": "vocab",
        "activation_function": "activation", "embd_pdrop": "dropout.embedding", "attn_pdrop": "dropout.attention", "resid_pdrop": "dropout.residual", **TIED,
        "scale_attn_by_inverse_layer_idx": "layer_scaled_attention", "reorder_and_upcast_attn": "upcast_attention",
    },
    "llama": {**DECODER, **QKV_BIAS, "mlp_bias": "bias.mlp"},
    "mistral": {**DECODER, **WINDOW},
    "qwen2": {**DECODER, **WINDOW},
    "qwen3": {**DECODER, **WINDOW, **QKV_BIAS},
    "gpt-neox": {
        **SIZES, **TIED, **QKV_BIAS, "rotary_pct": "rotary_fraction", "use_parallel_residual": "parallel_residual",
        "attention_dropout": "dropout.attention", "hidden_dropout": "dropout.residual",
    },
    "opt": {
        "num_hidden_layers": "L", "hidden_size": "H", "num_attention_heads": "heads", "vocab_size": "vocab", "max_position_embeddings": "max_positions", **TIED,
        "ffn_dim": "ffn", "activation_function": "activation", "dropout": "dropout.residual", "attention_dropout": "dropout.attention",
        "word_embed_proj_dim": "embedding_dim", "enable_bias": "bias.mlp",
    },
    "bert": BERT,
    "roberta": BERT,
    "vit": {
        "num_hidden_layers": "L", "hidden_size": "H", "num_attention_heads": "heads", "intermediate_size": "ffn", "hidden_act": "activation",
        "hidden_dropout_prob": "dropout.residual", "attention_probs_dropout_prob": "dropout.attention", "image_size": "image.size",
        "patch_size": "image.patch", "num_channels": "image.channels", "qkv_bias": "bias.qkv", "num_labels": "labels",
    },
    "mixtral": {**DECODER, **WINDOW, "num_local_experts": "moe.experts", "num_experts_per_tok": "moe.top_k"},
    "qwen3-moe": {
        **DECODER, **QKV_BIAS, **WINDOW, "num_experts": "moe.experts", "num_experts_per_tok": "moe.top_k", "moe_intermediate_size": "moe.ffn",
        "decoder_sparse_step": "moe.sparse_step", "mlp_only_layers": "moe.dense_layers", "norm_topk_prob": "moe.norm_top_k",
    },
    "phi": {**DECODER, "partial_rotary_factor": "rotary_fraction", "embd_pdrop": "dropout.embedding", "resid_pdrop": "dropout.residual",
            "qk_layernorm": "qk_norm"},
    "phi3": {**DECODER, **WINDOW, "partial_rotary_factor": "rotary_fraction", "resid_pdrop": "dropout.residual"},
    "gemma": {**DECODER, **QKV_BIAS},
    "gemma2": {**DECODER, **QKV_BIAS, **WINDOW, "hidden_activation": "activation"},
    "olmo2": {**DECODER, **QKV_BIAS},
    "starcoder2": {**DECODER, **WINDOW, "use_bias": "bias.mlp", "residual_dropout": "dropout.residual", "embedding_dropout": "dropout.embedding"},
    "falcon": {
        "num_hidden_layers": "L", "hidden_size": "H", "num_attention_heads": "heads", "vocab_size": "vocab", "max_position_embeddings": "max_positions", **TIED,
        "ffn_hidden_size": "ffn", "activation": "activation", "bias": "bias.mlp", "parallel_attn": "parallel_residual",
        "new_decoder_architecture": "new_decoder", "attention_dropout": "dropout.attention", "hidden_dropout": "dropout.residual",
    },
    "bloom": {
        "n_layer": "L", "hidden_size": "H", "n_head": "heads", "vocab_size": "vocab", "attention_dropout": "dropout.attention",
        "hidden_dropout": "dropout.residual", "apply_residual_connection_post_layernorm": "normed_residual", **TIED,
    },
    "granite": {**DECODER, **QKV_BIAS, "mlp_bias": "bias.mlp"},
    "cohere": {**DECODER, **QKV_BIAS, "use_qk_norm": "qk_norm"},
    "t5": {
        "num_layers": "L", "num_decoder_layers": "decoder_L", "d_model": "H", "num_heads": "heads", "d_kv": "head_dim", "d_ff": "ffn",
        "vocab_size": "vocab", "dropout_rate": "dropout.residual", **TIED,
    },
}

# The spec's words for activations where transformers has others.
ACTIVATIONS = {"gelu_tanh": "gelu_pytorch_tanh"}


def fields(spec):
    arch = spec["arch"]
    out = {"model_type": arch.replace("-", "_")}
    for key, path in KEYS[arch].items():
        value = get(spec, path)
        if value is not None:
            out[key] = ACTIVATIONS.get(value, value) if key.endswith(("act", "activation", "function")) else value
    window = spec.get("sliding_window")
    if "sliding_window" in KEYS[arch].values():
        out["sliding_window"] = window or None
        if arch in ("qwen2", "qwen3", "qwen3-moe"):
            out["use_sliding_window"] = bool(window)
    if spec.get("layer_types"):
        out["layer_types"] = spec["layer_types"]
    if arch == "falcon":
        out.update(alibi=spec.get("positions") == "alibi", multi_query=spec["kv_heads"] == 1, num_kv_heads=spec["kv_heads"])
    if arch == "gemma2":
        out["final_logit_softcapping"] = 30.0 if spec["logit_softcap"] else None
        out["attn_logit_softcapping"] = 50.0 if spec["attention_softcap"] else None
    if arch in ("bert", "roberta") and spec.get("labels"):
        out["num_labels"] = spec["labels"]
    if arch == "gpt2":
        out["scale_attn_weights"] = not spec.get("unscaled_attention")
    if arch == "opt":
        out["do_layer_norm_before"] = spec["norm_order"] == "pre"
        out["_remove_final_layer_norm"] = not spec["final_norm"]
        out["layer_norm_elementwise_affine"] = not spec.get("plain_norm")
    if arch == "t5":
        # feed_forward_proj cannot say it all: its gated-gelu is gelu_new. What follows from it is set as itself, and wins.
        out["dense_act_fn"], out["is_gated_act"] = ACTIVATIONS.get(spec["activation"], spec["activation"]), spec["gated"]
        out["tie_word_embeddings"] = spec["logit_scale"]
    if arch == "granite" and spec["logit_scale"]:
        out["logits_scaling"] = 8.0
    return out


def get(spec, path):
    for name in path.split("."):
        spec = spec.get(name) if isinstance(spec, dict) else None
    return spec
