"""What PyTorch itself allocates in a training step, measured without a GPU.

Runs the real Hugging Face model classes on the meta device, routed to the ATen ops that a CUDA device dispatches
(native_dropout, flash / efficient attention), and records every storage's birth and death, op by op, for two steps.
Not seen: buffers allocated inside a kernel, allocator rounding, library workspaces.
"""
import json, sys, weakref, gc, math, os, time, functools, traceback, contextlib, types
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils import _pytree as pytree

aten = torch.ops.aten

def uses(t):
    return t._use_count(), torch._C._storage_Use_Count(t.untyped_storage()._cdata)

def dense(t):
    """Non-overlapping and dense."""
    n = 1
    for st, sz in sorted((st, sz) for st, sz in zip(t.stride(), t.shape) if sz != 1):
        if st != n: return False
        n *= sz
    return True

@functools.cache
def last_reference():
    """What `uses` says, inside a mode, of a fan-in's first gradient when nothing else refers to it."""
    seen = []
    class Probe(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is aten.add.Tensor and not torch.is_grad_enabled(): seen.append(uses(args[0]))
            return func(*args, **(kwargs or {}))
    with Probe():
        y = torch.ones(4, device="meta", requires_grad=True).exp()
        (y.sin() + y.cos()).backward(torch.ones(4, device="meta"))
    return seen[0]

def safe_softmax(x, dim, dtype=None):
    """aten::_safe_softmax is a composite below autograd: its bool mask is a tensor that a mode would not see."""
    out = aten._softmax.default(x if dtype is None else x.to(dtype), dim, False)
    masked = aten.isneginf.default(x)
    rows = aten.all.dim(masked, dim, True)
    return aten.where.self_out(rows, aten.scalar_tensor.default(0.0, dtype=out.dtype, device=out.device), out, out=out)

def grouped_mm(a, b, offs, *rest):
    """The meta kernel of _grouped_mm takes half precision only. CUDA's serves the other dtypes expert by expert (_grouped_mm_fallback)
    into one output of the same shape, and allocates nothing else."""
    if a.dtype == torch.bfloat16: return aten._grouped_mm.default(a, b, offs, *rest)
    shape = (a.shape[0], b.shape[-1]) if b.dim() == 3 else (offs.shape[0], a.shape[0], b.shape[1])
    assert shape[-1] * a.element_size() % 16 == 0, "rows are padded to 16 bytes"
    return torch.empty(shape, dtype=a.dtype, device=a.device)

KERNELS = {aten._grouped_mm.default: grouped_mm}
def mse_loss(x, target, reduction=1):
    """aten::mse_loss allocates its result at the input's size and then resizes it to a scalar, which keeps the storage: the loss holds
    as many bytes as the input while it lives. The losses of the elements are a second tensor, made inside the op."""
    if reduction == 0: return aten.mse_loss.default(x, target, 0)
    out = torch.empty_like(x).resize_(())
    each = torch.empty_like(x)
    return out

def gemm_4bit(a, b, shape, absmax, blocksize, kind, bias=None, absmax_8bit=None, absmax_code=None, absmax_offset=None):
    """bitsandbytes' _gemm_4bit_default_impl, which CUDA takes above 1536 rows (below, as the device and the sizes say): the whole
    weight is dequantised inside the op."""
    ops = torch.ops.bitsandbytes
    if absmax_8bit is not None: absmax = ops.dequantize_blockwise.default(absmax_8bit, absmax, absmax_code, 256, torch.float32) + absmax_offset
    return F.linear(a, ops.dequantize_4bit.default(b, absmax, blocksize, kind, shape, a.dtype), bias)

COMPOSITE = {aten._safe_softmax.default: safe_softmax, aten.mse_loss.default: mse_loss}   # kernels that call other ATen ops: those are counted one by one

# index_backward and value_selecting_reduction_backward (FunctionsManual.cpp) write into the zeros that they made, except where
# a tensor is subclass-like, as all are under a mode.
IN_PLACE = {aten.index_put.default: aten.index_put_.default, aten.scatter.src: aten.scatter_.src}

class Tracker(TorchDispatchMode):
    """Counts live bytes of every storage seen."""
    def __init__(self, inplace_fanin=True):
        super().__init__()
        self.rec = {}            # storage key -> [bytes, tag]
        self.cur = 0
        self.peaks = {}          # phase -> [bytes, op, composition]
        self.phase = "setup"
        self.inplace_fanin = inplace_fanin
        self.fanin = 0
        self.last = last_reference()
        self.inside = None       # the op whose parts run
        self.dump_at = None      # (phase, bytes): list what is alive when this is reached
        self.dump = None
        self.trace = None        # a list: one line an op is appended
        self.backward = []       # live bytes after each op of the second step's backward that allocates
    def key(self, t):
        return t.untyped_storage()._cdata
    def add(self, t, tag):
        st = t.untyped_storage()
        k = st._cdata
        if k in self.rec: return
        n = st.nbytes()
        self.rec[k] = [n, tag, tuple(t.shape), str(t.dtype).replace("torch.", ""), self.phase]
        self.cur += n
        weakref.finalize(st, self.drop, k)
    def drop(self, k):
        r = self.rec.pop(k, None)
        if r: self.cur -= r[0]
    def mark(self, op):
        p = self.peaks.get(self.phase)
        if p is None or self.cur > p[0]:
            self.peaks[self.phase] = [self.cur, op]
        if self.trace is not None and op != "start": self.trace.append((self.phase, self.cur, op))
        if self.dump_at == (self.phase, self.cur) and self.dump is None:
            self.dump = [list(r) for r in self.rec.values() if r[0]]
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # the engine's own fan-in sum `old + new`: a real run does it in place where old is the last reference to an owned storage
        # (input_buffer.cpp, can_accumulate_inplace); a view keeps its base, so it is not. Out of place here only because a mode is active.
        steal = (self.inplace_fanin and func is aten.add.Tensor and self.phase.endswith("backward") and not torch.is_grad_enabled()
                 and len(args) == 2 and isinstance(args[1], torch.Tensor) and args[0].shape == args[1].shape and args[0].dtype == args[1].dtype
                 and dense(args[0]) and uses(args[0]) == self.last)
        if func in IN_PLACE and self.phase.endswith("backward") and not torch.is_grad_enabled(): func = IN_PLACE[func]
        if str(func) == "bitsandbytes.gemm_4bit.default" and func not in COMPOSITE: COMPOSITE[func] = gemm_4bit
        if func in COMPOSITE:
            self.inside = str(func) if COMPOSITE[func] is gemm_4bit else None
            with self: out = COMPOSITE[func](*args, **(kwargs or {}))
            self.inside = None
        else: out = KERNELS.get(func, func)(*args, **(kwargs or {}))
        name = self.inside or str(func)
        outs = [o for o in pytree.tree_leaves(out) if isinstance(o, torch.Tensor)]
        r = self.rec.get(self.key(args[0])) if steal else None
        if r is not None:
            so = outs[0].untyped_storage()
            self.rec[so._cdata] = [r[0], name, tuple(outs[0].shape), str(outs[0].dtype).replace("torch.", ""), self.phase]
            r[0] = 0
            weakref.finalize(so, self.drop, so._cdata)
            self.fanin += 1
        known = len(self.rec)
        for o in outs:
            self.add(o, name)
        self.mark(name)
        if self.phase == "2.backward" and len(self.rec) > known and r is None: self.backward.append(self.cur)
        if self.trace is not None:
            self.trace[-1] += (" ".join(f"{tuple(o.shape)}{'' if o.is_contiguous() else o.stride()}:{str(o.dtype).replace('torch.', '')}" for o in outs) + (" inplace" if r is not None else ""),)
        return out

AMP = [None]     # autocast's dtype
MATH = [False]   # attention "math"
OFF = [0]     # depth of regions where the model turns autocast off

class autocast_off:
    def __enter__(self): OFF[0] += 1
    def __exit__(self, *a): OFF[0] -= 1

def flash_ok(q, k, v, mask, p):
    return mask is None and q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] == v.shape[-1] <= 256

def efficient_ok(q, v):
    """check_head_dim_size_mem_efficient on sm80 and newer: heads are whole 16-byte pieces."""
    n = 16 // q.element_size()
    return q.shape[-1] % n == 0 and v.shape[-1] % n == 0

def additive(mask, dtype):
    """convert_boolean_attn_mask: what SDPA makes of a boolean mask before any kernel."""
    if mask is None or mask.dtype != torch.bool: return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device))

def math_sdpa(q_, k_, v_, mask=None, p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """aten::_scaled_dot_product_attention_math, op by op and with the locals of its C++ frame, as a CUDA run executes it.

    The op itself under a dispatch mode differs twice: the mask is added out of place (a mode counts as a tensor subclass), and
    dropout is composed of bernoulli and mul (fused only on CUDA). All else is the same sequence of ATen ops.
    """
    low = q_.dtype
    q_acc, k_acc, v_acc = (t.float() if low in (torch.bfloat16, torch.float16) else t for t in (q_, k_, v_))
    root = math.sqrt(scale if scale is not None else q_.shape[-1] ** -0.5)
    q = aten.mul.Scalar(q_acc, root)
    if is_causal:
        mask = torch.ones(q.shape[-2], k_acc.shape[-2], dtype=torch.bool, device=q.device).tril()
        mask = additive(mask, q.dtype)
    k, v = k_acc, v_acc
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        n = q.shape[-3] // k.shape[-3]
        k, v = k_acc.repeat_interleave(n, -3), v_acc.repeat_interleave(n, -3)
    attn = torch.matmul(q, aten.mul.Scalar(k.transpose(-2, -1), root))
    if mask is not None: attn.add_(mask)
    attn = torch._safe_softmax(attn, -1)
    if p > 0: attn = torch.native_dropout(attn, p, True)[0]
    weights = attn.to(low)   # the op's second result, dropped by SDPA once the first is made
    return torch.matmul(attn, v).to(low)

def cuda_sdpa(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """What the CUDA dispatcher would pick: flash, else efficient, else math."""
    if AMP[0]:
        q, k, v = (t.to(AMP[0]) for t in (q, k, v))
        if attn_mask is not None and attn_mask.is_floating_point(): attn_mask = attn_mask.to(AMP[0])
    # both fused kernels refuse unequal heads without enable_gqa (Falcon's single key head): the dispatcher falls back to math
    if MATH[0] or (q.shape[-3] != k.shape[-3] and not enable_gqa) or not (flash_ok(q, k, v, attn_mask, dropout_p) or efficient_ok(q, v)):
        with autocast_off(): return math_sdpa(q, k, v, additive(attn_mask, q.dtype), dropout_p, is_causal, scale, enable_gqa)
    D = q.shape[-1]
    pad = (-D) % 8
    if flash_ok(q, k, v, attn_mask, dropout_p):
        padded = [F.pad(t, (0, pad)) if pad else t for t in (q, k, v)]   # what autocast cast lives on: arguments of the op
        out = aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, False, scale=scale if scale is not None else D ** -0.5)[0]
        return out[..., :D] if pad else out
    bias = None   # grouped heads: native in the efficient kernel since 2.14 (PR #191085), k and v stay as they are
    if attn_mask is not None:
        bias = additive(attn_mask, q.dtype)
        if bias.shape[-1] % 16:   # preprocess_mask: rows of the bias start at a multiple of 16 elements
            bias = F.pad(bias, (0, -bias.shape[-1] % 16))[..., :bias.shape[-1]]
        bias = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    out = aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, dropout_p, is_causal, scale=scale)[0]
    return out

def cuda_dropout(x, p=0.5, training=True, inplace=False):
    if not training or p == 0.0: return x
    return torch.native_dropout(x, p, True)[0]

def cuda_softmax(x, dim=None, _stacklevel=3, dtype=None):
    """Native softmax takes fp16 to fp32 inside its kernel on CUDA (softmax in SoftMax.cpp asks is_cuda); elsewhere it casts first.
    Autocast asks for an fp32 result where the caller names no dtype."""
    if dtype is None and AMP[0] and not OFF[0] and x.dtype == torch.float16: dtype = torch.float32
    if x.dtype == torch.float16 and dtype == torch.float32: return aten._softmax.default(x, dim, True)
    return x.softmax(dim, dtype=dtype)

def patch():
    F.softmax = torch.nn.functional.softmax = cuda_softmax
    F.scaled_dot_product_attention = cuda_sdpa
    torch.nn.functional.scaled_dot_product_attention = cuda_sdpa
    F.dropout = cuda_dropout
    torch.nn.functional.dropout = cuda_dropout
    import transformers.masking_utils as mu
    ignore = mu._ignore_causal_mask_sdpa
    def ignore_mask(*a, **k):
        try: return ignore(*a, **k)
        except RuntimeError: return True   # an all-ones mask; a real device reads it and drops it
    mu._ignore_causal_mask_sdpa = ignore_mask
    mu.find_packed_sequence_indices = lambda *a, **k: None   # reads values; a few int64 rows, freed at once
    torch.nn.Dropout.forward = lambda self, x: cuda_dropout(x, self.p, self.training)

from torch.overrides import TorchFunctionMode, resolve_name
LOW = {"linear", "matmul", "bmm", "mm", "addmm", "baddbmm", "conv2d", "conv1d", "einsum", "__matmul__", "__rmatmul__"}
FP32 = {"layer_norm", "native_layer_norm", "pow", "__pow__", "rsqrt", "exp", "log", "softplus", "logsumexp", "nll_loss", "mse_loss", "norm", "reciprocal", "cosine_similarity", "group_norm"}
FP32_OUT = {"softmax", "log_softmax", "cumsum", "cumprod", "sum", "prod"}

class CudaAutocast(TorchFunctionMode):
    """CUDA's autocast rules, applied to meta tensors: per-call casts of activations, one cached cast a leaf weight."""
    active = 0
    def __init__(self):
        self.cache, self.depth = {}, 0
    def __enter__(self):
        self.depth += 1
        CudaAutocast.active += 1
        return super().__enter__()
    def low(self, t):
        if not isinstance(t, torch.Tensor) or not t.is_floating_point(): return t
        if t.dtype == torch.float32 and t.requires_grad and t.is_leaf and t._base is None:
            if id(t) not in self.cache: self.cache[id(t)] = (t, t.to(AMP[0]))
            return self.cache[id(t)][1]
        return t.to(AMP[0])
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        n = getattr(func, "__name__", "") if not OFF[0] else ""
        if n in LOW:
            args, kwargs = pytree.tree_map(self.low, (args, kwargs))
        elif n in FP32 and not (n in ("pow", "__pow__") and not isinstance(args[0], torch.Tensor)):
            args, kwargs = pytree.tree_map(lambda t: t.float() if isinstance(t, torch.Tensor) and t.dtype in (torch.bfloat16, torch.float16) else t, (args, kwargs))
        elif n in FP32_OUT and isinstance(args[0], torch.Tensor) and args[0].dtype in (torch.bfloat16, torch.float16) and kwargs.get("dtype") is None:
            kwargs = dict(kwargs, dtype=torch.float32)
        elif n == "cross_entropy" and args[0].dtype != torch.float32:
            # it asks for log_softmax in its input's dtype, which autocast respects; nll_loss is cast to fp32
            assert not kwargs.get("label_smoothing")
            kw = {k: v for k, v in kwargs.items() if k in ("weight", "ignore_index", "reduction")}
            return F.nll_loss(torch.log_softmax(args[0], 1, dtype=args[0].dtype).float(), *args[1:], **kw)
        elif n == "multi_head_attention_forward":
            # a Python function of many ops: run its body under the mode, past its own look for overrides
            looks, F.has_torch_function = F.has_torch_function, lambda ts: False
            try:
                with self: return func(*args, **kwargs)
            finally: F.has_torch_function = looks
        return func(*args, **kwargs)
    def __exit__(self, *a):
        CudaAutocast.active -= 1
        self.depth -= 1   # entered again for the body of multi_head_attention_forward; the casts stay until the outermost exit
        if not self.depth: self.cache.clear()
        return super().__exit__(*a)

FLOATS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

class LoraLinear(torch.nn.Module):
    """peft's rule for a LoRA linear: adapters in their own dtype, result cast back."""
    def __init__(self, base, r, alpha, p, dtype):
        super().__init__()
        self.base, self.scaling, self.p = base, alpha / r, p
        o, i = base.weight.shape if isinstance(base, nn.Linear) else reversed(base.weight.shape)   # GPT-2's Conv1D holds [in, out]
        self.A = torch.nn.Linear(i, r, bias=False, device="meta", dtype=dtype)
        self.B = torch.nn.Linear(r, o, bias=False, device="meta", dtype=dtype)
    @property
    def weight(self): return self.base.weight   # T5 asks wo for its dtype
    def forward(self, x):
        res = self.base(x)
        dt = res.dtype
        x = x.to(self.A.weight.dtype)
        res = res + self.B(self.A(cuda_dropout(x, self.p, self.training))) * self.scaling
        return res.to(dt)

def inject_lora(m, spec):
    from transformers.pytorch_utils import Conv1D
    for p in m.parameters(): p.requires_grad_(False)
    dt = FLOATS[spec.get("dtype", "fp32")]
    n = 0
    for name, mod in list(m.named_modules()):
        for cn, ch in list(mod.named_children()):
            if isinstance(ch, (nn.Linear, Conv1D)) and cn in spec["targets"]:
                setattr(mod, cn, LoraLinear(ch, spec["r"], spec.get("alpha", 2 * spec["r"]), spec.get("dropout", 0.0), dt)); n += 1
    return n

def quantize(m, base, compute):
    """What from_pretrained makes of a causal language model with a BitsAndBytesConfig: bitsandbytes' own layers in place of every
    nn.Linear but the head (get_keys_to_not_convert), quantised from weights in the compute dtype."""
    import bitsandbytes as bnb
    head, double = m.get_output_embeddings(), base == "nf4-double"
    for name, old in list(m.named_modules()):
        if type(old) is not nn.Linear or old is head: continue
        with torch.device("meta"): new = bnb.nn.Linear4bit(old.in_features, old.out_features, old.bias is not None, compute, compress_statistics=double, quant_type="nf4")
        packed, state = bnb.functional.quantize_4bit(old.weight.data, blocksize=64, compress_statistics=double, quant_type="nf4")
        new.weight = bnb.nn.Params4bit(packed, requires_grad=False, quant_state=state, blocksize=64, compress_statistics=double, quant_type="nf4", bnb_quantized=True, module=new)
        new.quant_state, new.bias = state, old.bias
        m.set_submodule(name, new)
    m.is_loaded_in_4bit = True

def quantized_state(m):
    """The tensors beside the packed weights."""
    for mod in m.modules():
        s = getattr(mod, "quant_state", None)
        if s is None: continue
        yield from (s.absmax, s.code)
        if s.nested: yield from (s.offset, s.state2.absmax, s.state2.code)

def inject_qlora(m, spec, prepared):
    """peft's adapters beside quantised layers; prepared: after prepare_model_for_kbit_training, which leaves all other weights in fp32."""
    import peft, peft.tuners.lora.bnb
    if prepared:
        peft.prepare_model_for_kbit_training(m, use_gradient_checkpointing=False)
        for mod in m.modules():   # the first forward takes biases back to the compute dtype
            if hasattr(mod, "quant_state") and mod.bias is not None: mod.bias.data = mod.bias.data.to(mod.compute_dtype)
    c = peft.LoraConfig(r=spec["r"], lora_alpha=spec.get("alpha", 2 * spec["r"]), lora_dropout=spec.get("dropout", 0.0), target_modules=spec["targets"])
    peft.inject_adapter_in_model(c, m)
    for name, p in m.named_parameters():
        p.requires_grad_("lora_" in name)
        if p.requires_grad: p.data = p.data.to(FLOATS[spec.get("dtype", "fp32")])

class MHABlock(nn.Module):
    """A pre-norm block around nn.MultiheadAttention as it is mostly called: need_weights stays True."""
    def __init__(self, d_model, nhead, dim_feedforward, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d_model, dim_feedforward), nn.GELU(), nn.Linear(dim_feedforward, d_model), nn.Dropout(dropout))
    def forward(self, x, src_mask=None, is_causal=False):
        h = self.norm1(x)
        a, _ = self.attn(h, h, h, attn_mask=src_mask)
        x = x + a
        return x + self.mlp(self.norm2(x))

class TorchEncoder(nn.Module):
    """Embedding, positions, a stack of nn.TransformerEncoderLayer (or MHABlock), a linear head, cross-entropy over every token."""
    def __init__(self, num_layers, d_model, nhead, dim_feedforward, vocab_size, dropout=0.1, activation="relu", norm_first=False, causal=False,
                 positions="learned", max_len=5000, final_norm=False, block="nn.TransformerEncoderLayer", bias=True):
        super().__init__()
        self.d_model, self.causal = d_model, causal
        self.embedding = nn.Embedding(vocab_size, d_model)
        if positions == "learned": self.positions = nn.Parameter(torch.zeros(1, max_len, d_model))
        else: self.register_buffer("positions", torch.zeros(1, max_len, d_model))   # sinusoidal
        self.dropout = nn.Dropout(dropout)
        if block == "nn.TransformerEncoderLayer":
            def layer(): return nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout, activation, batch_first=True, norm_first=norm_first, bias=bias)
        else:
            def layer(): return MHABlock(d_model, nhead, dim_feedforward, dropout)
        self.layers = nn.ModuleList(layer() for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model, bias=bias) if final_norm else nn.Identity()
        self.head = nn.Linear(d_model, vocab_size)
    def forward(self, input_ids, labels):
        S = input_ids.shape[1]
        x = self.embedding(input_ids) * math.sqrt(self.d_model)
        x = self.dropout(x + self.positions[:, :S])
        mask = nn.Transformer.generate_square_subsequent_mask(S, device=x.device, dtype=x.dtype) if self.causal else None
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=self.causal)
        logits = self.head(self.norm(x))
        return types.SimpleNamespace(loss=F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1)), logits=logits)

class OpsBlock(nn.Module):
    """One block of a custom stack: its ops in order; `residual` adds the block's input."""
    def __init__(self, width, ops):
        super().__init__()
        self.ops, self.residual, h = nn.ModuleList(), "residual" in ops, width
        for op in ops:
            name, *arg = op.split()
            if name == "linear":
                out = width * int(arg[0].removesuffix("H") or 1) if arg[0].endswith("H") else int(arg[0])
                self.ops.append(nn.Linear(h, out)); h = out
            elif name == "layernorm": self.ops.append(nn.LayerNorm(h))
            elif name == "dropout": self.ops.append(nn.Dropout(float(arg[0])))
            elif name != "residual": self.ops.append({"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}[name]())
        assert "residual" not in ops[:-1], "residual is the last op"
    def forward(self, x):
        y = x
        for op in self.ops: y = op(y)
        return x + y if self.residual else y

class CustomStack(nn.Module):
    """Blocks of listed ops over features [B, S, width] (or over an embedding of tokens), with a mean-squared-error or a classifier's loss."""
    def __init__(self, num_layers, width, ops, head="mse", labels=0, vocab_size=0):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width) if vocab_size else None
        self.layers = nn.ModuleList(OpsBlock(width, ops) for _ in range(num_layers))
        self.head = nn.Linear(width, labels) if head == "cross-entropy" else None
    def forward(self, x, target):
        if self.embedding is not None: x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        if self.head is None: return types.SimpleNamespace(loss=F.mse_loss(x, target), logits=x)
        logits = self.head(x)
        return types.SimpleNamespace(loss=F.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1)), logits=logits)

OWN = {"torch-encoder": TorchEncoder, "custom": CustomStack}

def dtype_of(case): return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(case["precision"].split("+")[0], torch.float32)

def build_own(case):
    old = torch.get_default_dtype()
    torch.set_default_dtype(dtype_of(case))
    try:
        with torch.device("meta"): m = OWN[case["model_type"]](**case["config"])
    finally:
        torch.set_default_dtype(old)
    return m.train(), types.SimpleNamespace(**case["config"])

def build(case):
    if case["model_type"] in OWN: return build_own(case)
    import transformers
    from transformers import AutoConfig
    cfg = AutoConfig.for_model(case["model_type"], **case["config"])
    attention = case.get("attention", "sdpa")
    if attention == "math": attention = "sdpa"   # sdpa under sdpa_kernel(SDPBackend.MATH)
    cfg._attn_implementation = attention
    if hasattr(cfg, "use_cache"): cfg.use_cache = False
    dtype = dtype_of(case)
    cls = getattr(transformers, case["auto"])
    old = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            m = cls.from_config(cfg, attn_implementation=attention)
    finally:
        torch.set_default_dtype(old)
    mod = sys.modules[type(m).__module__]
    if hasattr(mod, "maybe_autocast"): mod.maybe_autocast = lambda device_type, enabled=True, **k: contextlib.nullcontext() if enabled else autocast_off()
    m = m.to(dtype)
    m.train()
    return m, cfg

class FusedRMSNorm(torch.autograd.Function):
    """aten::_fused_rms_norm, which meta tensors do not have: x, weight and 1/rms are kept."""
    @staticmethod
    def forward(ctx, x, weight, eps):
        with torch._C._AutoDispatchBelowAutograd(): out, rstd = aten._fused_rms_norm.default(x, weight.shape, weight, eps)
        ctx.save_for_backward(x, weight, rstd)
        return out
    @staticmethod
    def backward(ctx, grad):
        x, weight, rstd = ctx.saved_tensors
        with torch._C._AutoDispatchBelowAutograd(): return *aten._fused_rms_norm_backward.default(grad, x, weight.shape, rstd, weight, [True, True]), None

KERNELS[aten._fused_rms_norm.default] = lambda x, *_: (torch.empty_like(x), torch.empty(*x.shape[:-1], 1, dtype=torch.float32, device=x.device))
KERNELS[aten._fused_rms_norm_backward.default] = lambda grad, x, shape, rstd, weight, mask: (torch.empty_like(x), torch.empty_like(weight))

def fuse_norms(m):
    """F.rms_norm in place of every RMSNorm that the class composes of small ops: one kernel on CUDA, where dtypes are equal."""
    for mod in m.modules():
        if type(mod).__name__.endswith("RMSNorm"):
            mod.forward = lambda x, n=mod: FusedRMSNorm.apply(x, n.weight, n.variance_epsilon)

def layers_of(m):
    from transformers.modeling_layers import GradientCheckpointingLayer
    return [x for x in m.modules() if isinstance(x, (GradientCheckpointingLayer, nn.TransformerEncoderLayer, MHABlock, OpsBlock))]

def segment(layers, each=False):
    """Consecutive layers under one checkpoint, whatever loop calls them; `each` also checkpoints every layer inside it. All but the
    last only note what they are called with, such as a mask of their own, and hand their input on; the last runs them all."""
    calls, forwards = [], [l.forward for l in layers]
    def later(f, as_tuple):
        def noted(x, *a, **k):
            calls.append((f, a, k))
            return (x, None) if as_tuple else x
        return noted
    def last(x, *a, **k):
        todo = calls + [(forwards[-1], a, k)]
        calls.clear()
        def run(x):
            for f, a, k in todo:
                y = ckpt(functools.partial(lambda f, a, k, x: f(x, *a, **k), f, a, k), x) if each else f(x, *a, **k)
                x = y[0] if isinstance(y, tuple) else y
            return y
        return ckpt(run, x)
    for l, f in zip(layers[:-1], forwards): l.forward = later(f, type(l).__name__ in ("FalconDecoderLayer", "BloomBlock"))
    layers[-1].forward = last

def segment_t5(m, layers, each=False):
    """The same for blocks of T5, which are called by position and hand the position biases on: those of the segment's first call enter
    it, those of its last block leave it."""
    assert layers[0].is_decoder == layers[-1].is_decoder, "no list of layers holds both stacks"
    for mod in m.modules():   # as gradient_checkpointing_enable: cross-attention's position bias of zeros takes a gradient
        if type(mod).__name__ == "T5Attention": mod.gradient_checkpointing = True
    calls, forwards = [], [l.forward for l in layers]
    def later(f):
        def noted(*a, **k):
            calls.append((f, a, k))
            return a[0], a[2], a[5]
        return noted
    def last(*a, **k):
        todo = calls + [(forwards[-1], a, k)]
        calls.clear()
        blocks, given = [functools.partial(f, **k) for f, _, k in todo], todo[0][1]
        del todo
        def run(x, mask, bias, enc, encmask, crossbias):
            for f in blocks:
                y = ckpt(f, x, mask, bias, enc, encmask, crossbias) if each else f(x, mask, bias, enc, encmask, crossbias)
                x, bias = y[0], y[1]
                if len(y) > 2: crossbias = y[2]
            return y
        return ckpt(run, *given)
    for l, f in zip(layers[:-1], forwards): l.forward = later(f)
    layers[-1].forward = last

def ckpt(fn, *args):
    from torch.utils.checkpoint import checkpoint
    kw = dict(context_fn=lambda: (contextlib.nullcontext(), CudaAutocast())) if AMP[0] else {}
    return checkpoint(fn, *args, use_reentrant=False, **kw)

class Host:
    """The host copy of a saved tensor (strides as torch.empty_like gives them). Host bytes are counted while it lives."""
    cur = peak = 0
    def __init__(self, t):
        with torch._C._DisableTorchDispatch(): like = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") if dense(t) else torch.empty_like(t.detach())
        self.layout, n = (like.shape, like.stride(), like.dtype), like.untyped_storage().nbytes()
        Host.cur += n; Host.peak = max(Host.peak, Host.cur)
        weakref.finalize(self, Host.release, n)
    @staticmethod
    def release(n): Host.cur -= n

def to_host(m):
    """Hooks that move each tensor saved under them to the host at pack and make a fresh device tensor at unpack: save_on_cpu with
    synchronous copies, parameters (and views of them) excepted. A tensor saved twice makes the trip twice."""
    weights = {p.untyped_storage()._cdata for p in m.parameters()}
    def pack(t):
        if t.untyped_storage()._cdata in weights: return t
        with torch.no_grad():
            if not dense(t): t = t.contiguous()   # copy_ between devices packs a strided source first, on the device
        return Host(t)
    def unpack(h):
        if isinstance(h, torch.Tensor): return h
        shape, stride, dtype = h.layout
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    return lambda: torch.autograd.graph.saved_tensors_hooks(pack, unpack)

def attention_parts(l):
    """(owner, method) of each attention sublayer of a layer: T5's decoder has two."""
    if hasattr(l, "layer"): return [(getattr(sub, n), "forward") for sub in l.layer for n in ("SelfAttention", "EncDecAttention") if hasattr(sub, n)]
    return [(next(ch for n, ch in l.named_children() if n in ("self_attn", "attn", "attention", "self_attention")), "forward")]

def mlp_parts(l):
    """(owner, method) of a layer's MLP: a module, a method (BERT, PyTorch's encoder layer), or three modules called in a row (OPT)."""
    if hasattr(l, "layer"): return [(l.layer[-1].DenseReluDense, "forward")]
    for name in ("feed_forward_chunk", "_ff_block"):
        if hasattr(l, name): return [(l, name)]
    if hasattr(l, "ffn") and hasattr(l.ffn, "ff_chunk"): return [(l.ffn, "ff_chunk")]
    if hasattr(l, "fc1"):
        up, act, down = l.fc1.forward, l.activation_fn, l.fc2.forward
        l.fc1.forward = lambda h: down(act(up(h)))
        l.activation_fn, l.fc2.forward = nn.Identity(), lambda h: h
        return [(l.fc1, "forward")]
    return [(l.mlp, "forward")]

def apply_strategy(m, case):
    s = case.get("strategy", "none")
    if s == "none": return 0
    L = len(layers_of(m))
    if s.startswith(("segments-", "nested-")) or s == "sqrt":
        k = round(math.sqrt(L)) if s == "sqrt" else int(s.split("-")[1])
        ls = layers_of(m)
        for i in range(0, L, k):
            if case["model_type"] in ("t5", "mt5"): segment_t5(m, ls[i:i + k], s.startswith("nested-"))
            else: segment(ls[i:i + k], s.startswith("nested-"))
        return L
    if s in ("selective-attn", "selective-mlp"):
        find = attention_parts if s == "selective-attn" else mlp_parts
        for l in layers_of(m):
            for owner, name in find(l):
                fwd = getattr(owner, name)
                def wrapped(hidden_states, *a, _f=fwd, **k): return ckpt(lambda h: _f(h, *a, **k), hidden_states)
                setattr(owner, name, functools.partial(ckpt, fwd) if s == "selective-mlp" else wrapped)   # BERT counts its method's arguments
        return L
    if s == "selective" and case["model_type"] in ("falcon", "torch-encoder"):   # the attention function that they call is PyTorch's own
        def core(q, k, v, *a, **kw): return ckpt(lambda q, k, v: cuda_sdpa(q, k, v, *a, **kw), q, k, v)
        F.scaled_dot_product_attention = core   # until the next patch()
        return L
    if s == "selective":
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
        import sys
        impl = m.config._attn_implementation
        inner = ALL_ATTENTION_FUNCTIONS.get_interface(impl, sys.modules[type(m).__module__].__dict__.get("eager_attention_forward")) \
            if hasattr(ALL_ATTENTION_FUNCTIONS, "get_interface") else ALL_ATTENTION_FUNCTIONS[impl]
        def core(module, q, k, v, mask, **kw): return ckpt(lambda q, k, v: inner(module, q, k, v, mask, **kw), q, k, v)
        mod = sys.modules[type(m).__module__]
        if impl == "eager":
            mod.eager_attention_forward = core
            UNDO.append(lambda: setattr(mod, "eager_attention_forward", inner))
        else:
            ALL_ATTENTION_FUNCTIONS[impl] = core
            UNDO.append(lambda: ALL_ATTENTION_FUNCTIONS.__setitem__(impl, inner))
        return L
    if s == "offload":
        hooks = to_host(m)
        for l in layers_of(m):
            def offloaded(*a, _f=l.forward, **k):
                with hooks(): return _f(*a, **k)
            l.forward = offloaded
        return 0
    own = type(m) in OWN.values()
    kw = {"use_reentrant": False}
    if AMP[0]:
        kw["context_fn"] = lambda: (contextlib.nullcontext(), CudaAutocast())
    if not own: m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kw)
    ls = layers_of(m)
    if s in ("full", "offload-inputs"): keep = set(range(len(ls)))
    elif s.startswith("every-"):
        k = int(s.split("-")[1]); keep = {i for i in range(len(ls)) if i % k == 0}
    elif s.startswith("first-"):
        k = int(s.split("-")[1]); keep = set(range(k))
    elif s.startswith("last-"):
        k = int(s.split("-")[1]); keep = set(range(len(ls) - k, len(ls)))
    else: raise ValueError(s)
    if own:
        for i in keep:
            def checkpointed(x, *a, _f=ls[i].forward, **k): return ckpt(lambda x: _f(x, *a, **k), x)
            ls[i].forward = checkpointed
    else:
        for i, l in enumerate(ls): l.gradient_checkpointing = i in keep
    if s == "offload-inputs":   # the checkpoint's own saved inputs, its positional tensors, pass these hooks; what the layer saves does not
        hooks = to_host(m)
        for l in ls:
            at = "forward" if own else "_gradient_checkpointing_func"
            def hooked(*a, _f=getattr(l, at), **k):
                with hooks(): return _f(*a, **k)
            setattr(l, at, hooked)
    return len(keep)

def inputs(case, cfg):
    B, S = case["batch"], case["seq"]
    dev = "meta"
    kind = case["auto"]
    if case["model_type"] == "custom":
        x = torch.zeros(B, S, dtype=torch.long, device=dev) if case["config"].get("vocab_size") else torch.empty(B, S, cfg.width, dtype=dtype_of(case), device=dev)
        target = torch.zeros(B, S, dtype=torch.long, device=dev) if case["config"].get("head") == "cross-entropy" else torch.empty(B, S, cfg.width, dtype=dtype_of(case), device=dev)
        return dict(x=x, target=target)
    if "ImageClassification" in kind:
        dt = dtype_of(case)
        return dict(pixel_values=torch.empty(B, cfg.num_channels, cfg.image_size, cfg.image_size, device=dev, dtype=dt), labels=torch.zeros(B, dtype=torch.long, device=dev))
    ids = torch.zeros(B, S, dtype=torch.long, device=dev)
    d = dict(input_ids=ids, labels=torch.zeros(B, S, dtype=torch.long, device=dev))
    if "SequenceClassification" in kind: d["labels"] = torch.zeros(B, dtype=torch.long, device=dev)
    if "QuestionAnswering" in kind:
        del d["labels"]
        for end in ("start_positions", "end_positions"): d[end] = torch.zeros(B, dtype=torch.long, device=dev)
    if "Seq2Seq" in kind: d["decoder_input_ids"] = torch.zeros(B, case.get("dec_seq", S), dtype=torch.long, device=dev); d["labels"] = torch.zeros(B, case.get("dec_seq", S), dtype=torch.long, device=dev)
    return d

def storage_bytes(ts):
    seen = {}
    for t in ts:
        s = t.untyped_storage(); seen[s._cdata] = s.nbytes()
    return sum(seen.values())

def chunk_loss(m, n):
    """Head and loss of a causal LM over n parts of the tokens, each under a checkpoint: no output holds logits. What the class does
    to its logits (Gemma 2 caps, Cohere and Granite scale) is part of the head."""
    inner, head, c = m.base_model, m.get_output_embeddings(), m.config
    def scaled(logits):
        cap = getattr(c, "final_logit_softcapping", None)
        if cap is not None:
            logits = logits / cap
            logits = torch.tanh(logits)
            logits = logits * cap
        if c.model_type == "cohere": logits = logits * c.logit_scale
        if c.model_type == "granite": logits = logits / c.logits_scaling
        return logits
    def forward(input_ids=None, labels=None, **kw):
        hidden = inner(input_ids=input_ids, **kw).last_hidden_state[:, slice(0, None), :]
        lab = F.pad(labels, (0, 1), value=-100)
        target = lab[..., 1:].contiguous().view(-1)
        rows = hidden.view(-1, hidden.shape[-1])
        total = 0
        for h, y in zip(rows.chunk(n), target.chunk(n)):
            def part(h, y):
                logits = scaled(head(h))
                return F.cross_entropy(logits.float(), y, ignore_index=-100, reduction="sum")
            total = total + ckpt(part, h, y)
        loss = total / target.numel()
        return type("Output", (), dict(loss=loss))()
    m.forward = forward

UNDO = []   # what a strategy patched outside its model

class FusedAdamW:
    """AdamW(fused=True), which meta tensors do not have: its kernel allocates nothing, its state is two copies and a step scalar."""
    def __init__(self, P): self.P, self.state = P, {}
    def step(self):
        for p in self.P:
            if p.grad is not None and p not in self.state:
                self.state[p] = torch.zeros((), dtype=torch.float32, device=p.device), torch.zeros_like(p.detach()), torch.zeros_like(p.detach())
    def zero_grad(self, set_to_none=True):
        for p in self.P: p.grad = None

def optimizer(name, P):
    """The optimizer of a case, in the form that its row in internal/optimizer describes."""
    if name == "none": return None
    if name == "adamw_fused": return FusedAdamW(P)
    if name.endswith("_8bit"):
        import bitsandbytes
        return dict(adamw_8bit=bitsandbytes.optim.AdamW8bit, lion_8bit=bitsandbytes.optim.Lion8bit)[name](P, lr=1e-4)
    make, options = dict(
        adamw=(torch.optim.AdamW, dict(foreach=True)), adamw_loop=(torch.optim.AdamW, dict(foreach=False)),
        sgd=(torch.optim.SGD, dict(foreach=True)), sgd_momentum=(torch.optim.SGD, dict(foreach=True, momentum=0.9)),
        rmsprop=(torch.optim.RMSprop, dict(foreach=True)))[name]
    return make(P, lr=1e-4, **options)

def run(case, dump_at=None, trace=None):
    while UNDO: UNDO.pop()()
    patch()
    AMP[0] = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(case["precision"].split("+")[-1])
    MATH[0] = case.get("attention") == "math"
    m, cfg = build(case)
    if case.get("qlora"):
        compute = AMP[0] or dtype_of(case)
        for p in m.parameters(): p.data = p.data.to(compute)
        quantize(m, case["qlora"]["base"], compute)
        inject_qlora(m, case["qlora"], AMP[0] is not None)
        torch.is_autocast_enabled = lambda *a: CudaAutocast.active > 0
        if case.get("strategy", "none") != "none": m.enable_input_require_grads()
    elif case.get("lora"):
        inject_lora(m, case["lora"])
        if case.get("strategy", "none") != "none": m.enable_input_require_grads()
    if case.get("norm") == "rmsnorm-fused": fuse_norms(m)
    nck = apply_strategy(m, case)
    if case.get("loss_chunks", 1) > 1: chunk_loss(m, case["loss_chunks"])
    allP = [p for p in m.parameters()]
    P = [p for p in allP if p.requires_grad]
    res = dict(trainable_parameters=sum(p.numel() for p in P), trainable_bytes=storage_bytes(P),
               all_parameters=sum(p.numel() for p in allP), all_parameter_bytes=storage_bytes(allP),
               parameters=sum(p.numel() for p in P), parameter_bytes=storage_bytes(P), buffer_bytes=storage_bytes(m.buffers()),
               checkpointed_layers=nck, layers=len(layers_of(m)))
    optname = case.get("optimizer", "adamw")
    opt = optimizer(optname, P)
    x = inputs(case, cfg)
    tr = Tracker()
    tr.dump_at, tr.trace = dump_at, trace
    Host.cur = Host.peak = 0
    for t in list(allP) + list(m.buffers()) + list(quantized_state(m)) + list(x.values()):
        tr.add(t, "static")
    res["static_bytes"] = tr.cur
    ctx = CudaAutocast if AMP[0] else contextlib.nullcontext
    keep = case.get("keep_logits", True)
    with tr:
        for step in (1, 2):
            for _ in range(case.get("grad_accum", 1)):   # a micro batch each; gradients stay, before_backward and after_* are the last one's
                tr.phase = f"{step}.forward"; tr.mark("start")
                with ctx():
                    out = m(**x)
                loss = out.loss
                after = tr.cur
                res[f"after_forward_{step}"] = after
                if not keep: del out
                res[f"before_backward_{step}"] = tr.cur
                tr.phase = f"{step}.backward"; tr.mark("start")
                loss.backward()
                if keep: del out
                del loss
                gc.collect()
                res[f"after_backward_{step}"] = tr.cur
            if opt is not None:
                tr.phase = f"{step}.optimizer"; tr.mark("start")
                opt.step()
                opt.zero_grad(set_to_none=case.get("zero_grad") != "zeros")
                res[f"after_step_{step}"] = tr.cur
            else:
                for p in P: p.grad = None
    res["peaks"] = {k: dict(bytes=v[0], op=v[1]) for k, v in tr.peaks.items()}
    if Host.peak: res["host_bytes"] = Host.peak
    if case.get("trace"): res["backward_2"] = " ".join(map(str, tr.backward))
    if dump_at: res["alive"] = tr.dump
    return res

def explain(case, phase):
    """What is alive at the peak of one phase, grouped by op, shape and dtype."""
    peak = run(case)["peaks"][phase]
    alive = run(case, dump_at=(phase, peak["bytes"]))["alive"] or []
    groups = {}
    for n, op, shape, dtype, born in alive:
        g = groups.setdefault((born, op, shape, dtype), [0, 0]); g[0] += 1; g[1] += n
    print(f"{case['id']}  {phase}  peak {peak['bytes']:,} at {peak['op']}")
    for (born, op, shape, dtype), (c, n) in sorted(groups.items(), key=lambda kv: -kv[1][1]):
        print(f"{n:>16,}  {c:>5} x {op:<50} {str(shape):<28} {dtype:<9} born in {born}")

def print_trace(case, steps="2"):
    """Every ATen op of the given steps with the live bytes after it: what memory.Simulate must reproduce."""
    trace = []
    run(case, trace=trace)
    for phase, cur, op, *outs in trace:
        if phase[0] in steps: print(f"{phase}\t{cur}\t{op}\t{outs[0] if outs else ''}")

def main(argv):
    if len(argv) >= 3 and argv[0] == "trace":
        return print_trace(next(c for c in json.load(open(argv[1])) if c["id"] == argv[2]), *argv[3:4])
    if len(argv) >= 4 and argv[0] == "explain":
        case = next(c for c in json.load(open(argv[1])) if c["id"] == argv[2])
        return explain(case, argv[3])
    if len(argv) != 2:
        sys.exit("usage: measure.py CASES.json OUT.json | measure.py explain CASES.json ID PHASE   (PHASE: 2.forward, 2.backward, 2.optimizer) | measure.py trace CASES.json ID [STEPS]")
    cases, outp = json.load(open(argv[0])), argv[1]
    done = {r["id"]: r for r in json.load(open(outp))} if os.path.exists(outp) else {}
    for c in cases:
        if "result" in done.get(c["id"], {}): continue
        c = {k: v for k, v in c.items() if k not in ("result", "error")}
        t = time.time()
        try:
            done[c["id"]] = dict(**c, result=run(c))
        except Exception as e:
            done[c["id"]] = dict(**c, error=repr(e)[:300])
            if os.environ.get("TB"): traceback.print_exc()
        r = done[c["id"]]
        print(c["id"], f"{time.time()-t:.1f}s", r.get("error") or {k: v["bytes"] for k, v in r["result"]["peaks"].items()}, flush=True)
        json.dump(list(done.values()), open(outp, "w"), indent=1)
        gc.collect()

if __name__ == "__main__":
    main(sys.argv[1:])
