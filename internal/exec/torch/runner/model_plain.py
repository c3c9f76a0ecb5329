"""Models in plain PyTorch, for a Python without transformers and for archs that transformers does not have.

They run the ATen ops that the spec's arch runs, with locals that live as long, and name their modules as the Hugging
Face classes do.
"""
import math
import types

import torch
import torch.nn.functional as F
from torch import nn

from plain_attention import BERTAttention, GPT2Attention, LlamaAttention, causal_mask, rotary_table
from plain_parts import RMSNorm, GatedMLP, GPT2MLP, activation
from refusal import Refusal


def build(spec, device):
    makers = {"torch-encoder": TorchEncoder, "custom": CustomStack, "gpt2": GPT2, "bert": BERT, **{a: Llama for a in ("llama", "mistral", "qwen2", "qwen3")}}
    maker = makers.get(spec["arch"])
    if maker is None:
        raise Refusal("no_transformers", f"{spec['arch']} is run with transformers, which cannot be imported")
    if spec["arch"] == "mistral" and spec.get("sliding_window") and spec["sliding_window"] < spec["S"]:
        raise Refusal("no_transformers", "a sliding window shorter than the sequence is run with transformers, which cannot be imported")
    for key in ("unscaled_attention", "layer_scaled_attention", "upcast_attention"):
        if spec.get(key):
            raise Refusal("no_transformers", f"{key} is run with transformers, which cannot be imported")
    if spec["arch"] == "bert" and spec.get("labels"):
        raise Refusal("no_transformers", "a BERT classifier is run with transformers, which cannot be imported")
    return maker(spec), f"plain PyTorch {maker.__name__}"


class Plain(nn.Module):
    def get_input_embeddings(self):
        return next(m for m in self.modules() if isinstance(m, nn.Embedding))


def next_token_loss(logits, labels):
    """transformers' ForCausalLMLoss: scores in fp32, labels shifted by one. The padded labels live until it returns."""
    logits = logits.float()
    labels = F.pad(labels, (0, 1), value=-100)
    shifted = labels[..., 1:].contiguous()
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), shifted.view(-1), ignore_index=-100, reduction="mean")


def result(loss, logits):
    return types.SimpleNamespace(loss=loss, logits=logits)


class GPT2Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(s["H"]), GPT2Attention(s)
        self.ln_2, self.mlp = nn.LayerNorm(s["H"]), GPT2MLP(s)

    def forward(self, x, mask, positions=None):
        residual = x
        x = self.ln_1(x)
        a, weights = self.attn(x, mask=mask, positions=positions)
        x = a + residual
        residual = x
        x = self.ln_2(x)
        m = self.mlp(x)
        return residual + m


class GPT2(Plain):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.wte, self.wpe = nn.Embedding(s["vocab"], s["H"]), nn.Embedding(s["max_positions"], s["H"])
        self.drop = nn.Dropout(s["dropout"]["embedding"])
        self.plan_layers = nn.ModuleList(GPT2Block(s) for _ in range(s["L"]))
        self.ln_f = nn.LayerNorm(s["H"])
        self.lm_head = nn.Linear(s["H"], s["vocab"], bias=False)
        if s["tied"]:
            self.lm_head.weight = self.wte.weight

    def hidden(self, ids):
        tokens = self.wte(ids)
        positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        places = self.wpe(positions)
        x = tokens + places
        mask = causal_mask(ids.shape, x) if self.s["attention"] == "eager" else None
        x = self.drop(x)
        for layer in self.plan_layers:
            x = layer(x, mask, positions=positions)  # which nothing reads, but a checkpoint holds what it is called with
        return self.ln_f(x)

    def forward(self, input_ids, labels):
        hidden = self.hidden(input_ids)  # held until the loss is there
        logits = self.lm_head(hidden)
        return result(next_token_loss(logits, labels), logits)


class LlamaLayer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(s), GatedMLP(s)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(s["H"]), RMSNorm(s["H"])

    def forward(self, x, table, mask, positions):
        residual = x
        x = self.input_layernorm(x)
        x, weights = self.self_attn(x, table=table, mask=mask, positions=positions)
        x = residual + x
        residual = x
        x = self.post_attention_layernorm(x)
        x = self.mlp(x)
        return residual + x


class Llama(Plain):
    """Llama and the classes that differ from it by biases on q, k, v (Qwen 2) or norms over their heads (Qwen 3)."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.embed_tokens = nn.Embedding(s["vocab"], s["H"])
        self.plan_layers = nn.ModuleList(LlamaLayer(s) for _ in range(s["L"]))
        self.norm = RMSNorm(s["H"])
        self.lm_head = nn.Linear(s["H"], s["vocab"], bias=s["bias"]["head"])
        steps = torch.arange(0, s["head_dim"], 2, dtype=torch.float32)
        self.register_buffer("inv_freq", (1 / 10000 ** (steps / s["head_dim"])).to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("original_inv_freq", self.inv_freq.clone(), persistent=False)
        if s["tied"]:
            self.lm_head.weight = self.embed_tokens.weight

    def hidden(self, ids):
        x = embedded = self.embed_tokens(ids)
        positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        mask = causal_mask(ids.shape, x) if self.s["attention"] == "eager" else None
        table = rotary_table(self.inv_freq, positions, x)
        for layer in self.plan_layers:
            x = layer(x, table=table, mask=mask, positions=positions)
        return self.norm(x)

    def forward(self, input_ids, labels):
        hidden = self.hidden(input_ids)  # held until the loss is there
        logits = self.lm_head(hidden)
        return result(next_token_loss(logits, labels), logits)


class BERTOutput(nn.Module):
    """LayerNorm(dropout(dense(x)) + residual)."""

    def __init__(self, s, width):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(width, s["H"]), nn.LayerNorm(s["H"])
        self.dropout = nn.Dropout(s["dropout"]["residual"])

    def forward(self, x, residual):
        x = self.dense(x)
        x = self.dropout(x)
        return self.LayerNorm(x + residual)


class BERTAttentionBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.self, self.output = BERTAttention(s), BERTOutput(s, s["H"])

    def forward(self, x):
        residual = x
        context, weights = self.self(x)
        return self.output(context, residual), weights


class BERTUp(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.dense, self.intermediate_act_fn = nn.Linear(s["H"], s["ffn"]), activation(s["activation"])

    def forward(self, x):
        return self.intermediate_act_fn(self.dense(x))


class BERTLayer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.attention, self.intermediate, self.output = BERTAttentionBlock(s), BERTUp(s), BERTOutput(s, s["ffn"])

    def forward(self, x):
        a, weights = self.attention(x)
        return self.feed_forward_chunk(a)

    def feed_forward_chunk(self, a):
        up = self.intermediate(a)
        return self.output(up, a)


class BERT(Plain):
    def __init__(self, s):
        super().__init__()
        h = s["H"]
        self.words, self.places, self.types = nn.Embedding(s["vocab"], h), nn.Embedding(s["max_positions"], h), nn.Embedding(s["token_types"], h)
        self.norm, self.drop = nn.LayerNorm(h), nn.Dropout(s["dropout"]["embedding"])
        self.plan_layers = nn.ModuleList(BERTLayer(s) for _ in range(s["L"]))
        self.dense, self.act, self.head_norm = nn.Linear(h, h), activation(s["activation"]), nn.LayerNorm(h)
        self.decoder = nn.Linear(h, s["vocab"])
        if s["tied"]:
            self.decoder.weight = self.words.weight
        self.register_buffer("position_ids", torch.arange(s["max_positions"]).unsqueeze(0), persistent=False)
        self.register_buffer("type_ids", torch.zeros(1, s["max_positions"], dtype=torch.long), persistent=False)

    def embed(self, ids):
        positions = self.position_ids[:, :ids.shape[1]]
        types = torch.gather(self.type_ids, 1, positions).expand(ids.shape)
        tokens = self.words(ids)
        kinds = self.types(types)
        x = tokens + kinds
        places = self.places(positions)
        x = x + places
        return self.drop(self.norm(x))

    def forward(self, input_ids, labels):
        x = embedded = self.embed(input_ids)
        for layer in self.plan_layers:
            x = layer(x)
        del embedded
        logits = self.decoder(self.head_norm(self.act(self.dense(x))))
        return result(F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1)), logits)


class AttentionBlock(nn.Module):
    """The pre-norm block that people write around nn.MultiheadAttention, whose need_weights stays True."""

    def __init__(self, s):
        super().__init__()
        h, f = s["H"], s["ffn"]
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.attn = nn.MultiheadAttention(h, s["heads"], dropout=s["dropout"]["attention"], bias=s["bias"]["qkv"], batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(h, f), activation(s["activation"]), nn.Dropout(s["dropout"]["mlp"]), nn.Linear(f, h), nn.Dropout(s["dropout"]["residual"]))

    def forward(self, x, src_mask=None, is_causal=False):
        y = self.norm1(x)
        a, _ = self.attn(y, y, y, attn_mask=src_mask)
        x = x + a
        return x + self.mlp(self.norm2(x))


class TorchEncoder(Plain):
    """nn.TransformerEncoderLayer, or blocks around nn.MultiheadAttention that returns its weights, under a linear head."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        h, d = s["H"], s["dropout"]
        if s.get("vocab"):
            self.embedding = nn.Embedding(s["vocab"], h)
        if s["positions"] == "learned":
            self.positions = nn.Parameter(torch.zeros(1, s["max_positions"], h))
        elif s["positions"] == "sinusoidal":
            self.register_buffer("positions", torch.zeros(1, s["max_positions"], h))
        else:
            self.positions = None
        self.dropout = nn.Dropout(d["embedding"])
        if s.get("need_weights"):
            layer = AttentionBlock
        else:
            layer = self.encoder_layer
        self.plan_layers = nn.ModuleList(layer(s) for _ in range(s["L"]))
        self.norm = nn.LayerNorm(h, bias=s["bias"]["norm"]) if s.get("final_norm") else nn.Identity()
        self.head = nn.Linear(h, s.get("labels") or s["vocab"], bias=s["bias"]["head"])
        if s["tied"]:
            self.head.weight = self.embedding.weight

    @staticmethod
    def encoder_layer(s):
        d = s["dropout"]
        layer = nn.TransformerEncoderLayer(
            s["H"], s["heads"], s["ffn"], d["residual"], activation(s["activation"]), batch_first=True, norm_first=s["norm_order"] == "pre", bias=s["bias"]["qkv"])
        layer.self_attn.dropout, layer.dropout.p = d["attention"], d["mlp"]
        return layer

    def forward(self, x, target):
        length = x.shape[1]
        if self.s.get("vocab"):
            x = self.embedding(x) * math.sqrt(self.s["H"])
        if self.positions is not None:
            x = self.dropout(x + self.positions[:, :length])
        else:
            x = self.dropout(x)
        causal = bool(self.s.get("causal"))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=x.device, dtype=self.head.weight.dtype) if causal else None
        for layer in self.plan_layers:
            x = layer(x, src_mask=mask, is_causal=causal)
        logits = self.head(self.norm(x))
        return result(F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1)), logits)


class ListedOps(nn.Module):
    """One block of a custom stack: its ops in order; a residual adds what the block, or the last residual, gave."""

    def __init__(self, s):
        super().__init__()
        self.ops, width = nn.ModuleList(), s["H"]
        for text in s["ops"]:
            name, _, argument = text.partition(" ")
            if name == "linear":
                out = int(argument.removesuffix("H") or 1) * s["H"] if argument.endswith("H") else int(argument)
                op, width = nn.Linear(width, out, bias=s["bias"]["mlp"]), out
            elif name == "layernorm":
                op = nn.LayerNorm(width)
            elif name == "dropout":
                op = nn.Dropout(float(argument))
            elif name == "residual":
                op = nn.Identity()
            elif name == "attention":
                raise Refusal("unsupported", "op attention of arch custom is not run by the torch engine")
            else:
                op = activation(name)
            self.ops.append(op)
        self.residuals = [text == "residual" for text in s["ops"]]

    def forward(self, x):
        last = y = x
        for op, residual in zip(self.ops, self.residuals):
            if residual:
                y = last = last + y
            else:
                y = op(y)
        return y


class CustomStack(Plain):
    def __init__(self, s):
        super().__init__()
        self.embedding = nn.Embedding(s["vocab"], s["H"]) if s.get("vocab") else None
        self.plan_layers = nn.ModuleList(ListedOps(s) for _ in range(s["L"]))
        self.head = nn.Linear(s["H"], s["labels"], bias=s["bias"]["head"]) if s.get("labels") else None

    def forward(self, x, target):
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.plan_layers:
            x = layer(x)
        if self.head is None:
            return result(F.mse_loss(x, target), x)
        logits = self.head(x)
        return result(F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1)), logits)
