package memory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
)

// genSpec draws a small spec of any arch with any training settings.
func genSpec(t *rapid.T) *spec.Spec {
	pick := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, name) }
	number := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
	var doc strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&doc, format+"\n", args...) }
	name := rapid.SampledFrom(class.Archs()).Draw(t, "arch")
	heads := 1 << number("log heads", 0, 3)
	s := number("S", 1, 48)
	put("arch: %s\nL: %d\nB: %d\nheads: %d\nH: %d", name, number("L", 1, 6), number("B", 1, 3), heads, heads*8*number("head", 1, 3))
	dtype := pick("dtype", "fp32", "bf16", "fp16", "amp-bf16", "amp-fp16")
	switch name {
	case "t5", "mt5":
		if dtype == "fp16" {
			dtype = "amp-fp16"
		}
		put("decoder_L: %d\ndecoder_S: %d", number("decoder L", 1, 4), number("decoder S", 1, 30))
	case "vit":
		s = 5
		put("image: {size: 32, patch: 16}\nlabels: 10")
	case "mixtral", "qwen3-moe":
		put("moe: {experts: 4, top_k: 2, ffn: 32}")
	case "torch-encoder":
		put("labels: 10\nneed_weights: %v\nnorm_order: %s", rapid.Bool().Draw(t, "need weights"), pick("norm order", "pre", "post"))
	case "custom":
		put("ops: [%s]", strings.Join(genOps(t), ", "))
	case "llama", "mistral", "qwen2", "qwen3", "granite":
		put("kv_heads: %d", max(1, heads>>number("log groups", 0, 2)))
	}
	put("S: %d\ndtype: %s", s, dtype)
	if !class.Of(name).Eager && name != "custom" && name != "torch-encoder" {
		put("attention: %s", pick("attention", "eager", "sdpa", "math"))
	}
	if name != "vit" && name != "custom" && name != "torch-encoder" {
		put("vocab: %d", number("vocab", 2, 300))
	}
	plain := doc.String()
	if rapid.Bool().Draw(t, "dropout") && name != "custom" {
		put("%s", pick("dropout", "dropout: 0.1", "dropout: {attention: 0.1}"))
	}
	train := fmt.Sprintf("train:\n  optimizer: %s\n  keep_logits: %v\n  grad_accum: %d", pick("optimizer", "adamw", "adamw-loop", "adamw-fused", "sgd", "none"),
		rapid.Bool().Draw(t, "keep logits"), number("grad accum", 1, 3))
	put("%s", train)
	if name != "custom" && name != "torch-encoder" && rapid.IntRange(0, 3).Draw(t, "lora") == 0 {
		put("  lora: {r: 4, dropout: %s, dtype: %s}", pick("lora dropout", "0", "0.1"), pick("lora dtype", "fp32", "bf16"))
	}
	spec, err := model.Load("random.yaml", []byte(doc.String()))
	if err != nil { // not every class has such dropout or adapters
		spec, err = model.Load("random.yaml", []byte(plain+train))
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, doc.String())
	}
	return spec
}

// genOps draws the ops of a custom block.
func genOps(t *rapid.T) []string {
	ops := rapid.SliceOfN(rapid.SampledFrom([]string{"linear H", "gelu", "relu", "silu", "tanh", "layernorm", "dropout 0.1", "attention", "residual"}), 1, 8).Draw(t, "ops")
	for i, op := range ops {
		if op == "linear H" && i+2 < len(ops) && rapid.Bool().Draw(t, "wide") {
			ops[i], ops[i+1], ops[i+2] = "linear 4H", "gelu", "linear H"
		}
	}
	return append(ops, "linear H") // something to train
}

// genPlan draws a named strategy or a tree of regions over the layers of a graph.
func genPlan(t *rapid.T, g *graph.Graph) *plan.Plan {
	if rapid.Bool().Draw(t, "named") {
		k := rapid.IntRange(1, g.Layers).Draw(t, "K")
		name := rapid.SampledFrom([]string{
			"none", "full", "sqrt", "offload", "offload-inputs", "selective", "selective-attn", "selective-mlp",
			fmt.Sprint("every-", k), fmt.Sprint("first-", k), fmt.Sprint("last-", k), fmt.Sprint("segments-", k), fmt.Sprint("nested-", k),
		}).Draw(t, "strategy")
		p, err := plan.Named(name, g.Layers)
		if err != nil {
			t.Fatal(err)
		}
		stacks := !slices.ContainsFunc(p.Nodes, func(n plan.Node) bool { return n.Segment && !oneStack(g, n.First, n.Last) })
		if stacks && parts(g, p.Nodes) {
			return p
		}
	}
	p := &plan.Plan{Strategy: "random", Nodes: genNodes(t, g, 0, g.Layers-1, 0)}
	if err := p.Validate(g.Layers); err != nil {
		t.Fatalf("the generator made an invalid plan: %v", err)
	}
	return p
}

// parts is true if every layer has the spans that the nodes name.
func parts(g *graph.Graph, ns []plan.Node) bool {
	for _, n := range ns {
		if !parts(g, n.Inner) {
			return false
		}
		if n.Option == nil {
			continue
		}
		for l := n.First; l <= n.Last; l++ {
			for _, r := range n.Option.Regions {
				if _, ok := g.Span(l, r.Span); !ok {
					return false
				}
			}
		}
	}
	return true
}

func genNodes(t *rapid.T, g *graph.Graph, lo, hi, depth int) []plan.Node {
	var ns []plan.Node
	for at := lo; at <= hi; {
		n := plan.Node{First: rapid.IntRange(at, hi).Draw(t, "first")}
		n.Last = rapid.IntRange(n.First, hi).Draw(t, "last")
		at = n.Last + 1
		if depth < 3 && (depth == 0 || n.First > lo || n.Last < hi) && oneStack(g, n.First, n.Last) && rapid.Bool().Draw(t, "segment") {
			n.Segment = true
			n.Inner = genNodes(t, g, n.First, n.Last, depth+1)
		} else {
			n.Last = n.First
			at = n.Last + 1
			n.Option = genOption(t, g, n.First, depth > 0)
		}
		ns = append(ns, n)
		if rapid.IntRange(0, 3).Draw(t, "stop") == 0 {
			break
		}
	}
	return ns
}

// oneStack is true for layers that are all of the encoder, or all of the decoder.
func oneStack(g *graph.Graph, first, last int) bool {
	s := build.SpecOf(g)
	return s.DecoderL == 0 || last < s.L || first >= s.L
}

// genOption draws disjoint regions inside one layer.
func genOption(t *rapid.T, g *graph.Graph, layer int, nested bool) *plan.Option {
	o := &plan.Option{Name: "drawn"}
	var taken []graph.Span
	for _, name := range rapid.Permutation(plan.Spans).Draw(t, "spans") {
		sp, ok := g.Span(layer, name)
		if !ok || !rapid.Bool().Draw(t, "use") {
			continue
		}
		free := true
		for _, x := range taken {
			free = free && (sp.End <= x.First || sp.First >= x.End) && !excludes(x.Name, name)
		}
		if !free {
			continue
		}
		taken = append(taken, sp)
		r := plan.Region{Span: name}
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case nested:
		case kind == 0:
			r.Offload = "saved"
			if name == "layer" || name == "attn" || name == "mlp" { // other parts may take views, which offload inputs refuses
				r.Offload = rapid.SampledFrom(plan.Offloads).Draw(t, "offload")
			}
		case kind < 3:
			whole, _ := g.Span(layer, "layer")
			labels := g.Labels(whole.First, whole.End)
			for i := sp.First; i < sp.End; i++ {
				if g.Uncachable(i) == "" && rapid.IntRange(0, 3).Draw(t, "cache") == 0 {
					r.Cache = append(r.Cache, labels[i-whole.First])
				}
			}
		}
		o.Regions = append(o.Regions, r)
	}
	return o
}

// excludes is true for parts that a plan may not name together.
func excludes(a, b string) bool {
	p := plan.Plan{Nodes: []plan.Node{{Option: &plan.Option{Name: "pair", Regions: []plan.Region{{Span: a}, {Span: b}}}}}}
	return p.Validate(1) != nil
}

// show prints a plan in full.
func show(p *plan.Plan) string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// scheduleOf lowers, and fails the test where that is refused.
func scheduleOf(t *rapid.T, p *Program, pl *plan.Plan) *Schedule {
	s, err := Lower(p, pl)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(pl))
	}
	return s
}

// watched is the program with a mark before the first gradient of every node, at which its saved tensors are there.
func watched(p *Program) *Program {
	q := *p
	tp := *p.tape
	x := int32(len(tp.grads))
	tp.grads = append(append([]gradient(nil), tp.grads...), gradient{aten: "node"})
	tp.events = nil
	for _, e := range p.tape.events {
		tp.events = append(tp.events, e)
		if e.kind == evNode {
			tp.events = append(tp.events, event{kind: evAlloc, op: e.op, x: x}, event{kind: evFree, op: e.op, x: x})
		}
	}
	q.tape = &tp
	return &q
}

// Whatever the model and the plan: nothing is freed twice; what a node needs is there when it runs; and after every
// step only weights, inputs and the optimizer's state are alive.
func TestEveryStepReturnsToItsState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// on the CPU checkpoints keep random states
		g, err := model.Build(genSpec(t), build.Options{CPU: rapid.Bool().Draw(t, "cpu")})
		if err != nil {
			t.Fatal(err)
		}
		pl := genPlan(t, g)
		s := scheduleOf(t, watched(Compile(g)), pl)
		if g.Step.MicroBatches > 1 && rapid.Bool().Draw(t, "interleaved") {
			s.Passes = []Pass{{Forward, 0, 1}, {Forward, 1, 1}, {Backward, 0, 1}, {Forward, 2, 1}, {Backward, 1, 1}, {Backward, 2, 1}, {Optimizer, 0, 1}}
		}
		m := newMachine(s)
		o := &ledger{m: m, alive: map[ID]int64{}, plan: show(pl), t: t}
		m.observer = o
		m.construct()
		weights := m.at.Bytes
		var res [2]StepResult
		for i := range res {
			m.res = &res[i]
			m.step()
			if got := m.at.Bytes - weights; got != stateBytes(g) {
				t.Fatalf("step %d ends with %d bytes beside weights and inputs, want the state's %d\n%s", i+1, got, stateBytes(g), o.plan)
			}
			if sum := o.sum(); sum != m.at.Bytes {
				t.Fatalf("step %d: buffers hold %d bytes of %d\n%s", i+1, sum, m.at.Bytes, o.plan)
			}
			if m.host != 0 {
				t.Fatalf("%d bytes stay on the host\n%s", m.host, show(pl))
			}
			for _, b := range m.batches {
				for lv := range b.refs {
					for st, n := range b.refs[lv] {
						if n != 0 && g.Storages[st].Born != graph.None {
							t.Fatalf("step %d: %d references to %s of op %d at level %d stay\n%s", i+1, n, g.Storages[st].Name, g.Storages[st].Born, lv, o.plan)
						}
					}
				}
			}
		}
		if got := res[1].BeforeBackward - res[0].BeforeBackward; got != stateBytes(g) && g.Step.MicroBatches == 1 {
			t.Fatalf("the second step starts backward with %d bytes more, want the state's %d", got, stateBytes(g))
		}
	})
}

// ledger fails the test if a buffer is made twice or freed when it is not there, if bytes and buffers do not add up, or
// if a node runs without what it needs.
type ledger struct {
	m     *machine
	alive map[ID]int64
	plan  string
	t     *rapid.T
}

func (*ledger) Pass(Pass, *Instant)   {}
func (*ledger) Block(int32, *Instant) {}

func (l *ledger) Alloc(id ID, bytes int64, at *Instant) {
	if _, there := l.alive[id]; there || int(id) >= l.m.ids.Len() {
		l.t.Fatalf("%+v is made twice\n%s", l.m.ids.Of(id), l.plan)
	}
	l.alive[id] = bytes
	if at.Aten == "node" && at.Phase == Backward && !at.Recompute {
		l.node(at.Op)
	}
}

func (l *ledger) Free(id ID, bytes int64, _ *Instant) {
	if was, there := l.alive[id]; !there || was != bytes {
		l.t.Fatalf("%+v of %d bytes is freed as one of %d\n%s", l.m.ids.Of(id), was, bytes, l.plan)
	}
	delete(l.alive, id)
}

func (l *ledger) sum() (n int64) {
	for _, bytes := range l.alive {
		n += bytes
	}
	return n
}

func (l *ledger) node(op graph.OpID) {
	m := l.m
	own := m.s.Owner[op]
	if own >= 0 && m.s.Regions[own].HostSaved {
		return
	}
	for _, x := range m.p.saves[m.p.ops[op].save:m.p.ops[op].saveEnd] {
		if lv := m.level(x.storage, own); !x.static && m.micro.refs[lv][x.storage] <= 0 {
			l.t.Fatalf("%s of %s needs %s, which is gone\n%s", m.g.Ops[op].Row().Aten, m.g.Blocks[m.g.Ops[op].Block].Label, m.g.Storages[x.storage].Name, l.plan)
		}
	}
}

// stateBytes is what AdamW keeps: two tensors like each trained parameter that the loss depends on, and 4 bytes.
func stateBytes(g *graph.Graph) (n int64) {
	if !strings.HasPrefix(g.Step.Optimizer, "adamw") {
		return 0
	}
	reached := map[graph.ParamID]bool{}
	for _, l := range compile(g).leaves {
		reached[l.param] = true
	}
	for i := range reached {
		n += 2*g.Params[i].Bytes + 4
	}
	return n
}

func timelineOf(t *rapid.T, p *Program, pl *plan.Plan) *Timeline {
	tl, err := Judge(p, pl, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, show(pl))
	}
	return tl
}

// A larger micro batch never needs less, at any instant that a timeline names.
func TestPeaksGrowWithTheBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := genSpec(t)
		g, err := model.Build(small, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pl := genPlan(t, g)
		large := *small
		large.B += rapid.IntRange(1, 3).Draw(t, "more")
		h, err := model.Build(&large, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Lower(Compile(h), pl); err != nil { // a batch of 1 has other ops, which a plan can keep
			t.Skip(err)
		}
		a, b := timelineOf(t, Compile(g), pl).Second, timelineOf(t, Compile(h), pl).Second
		for ph := Forward; ph < Phases; ph++ {
			if b.Peak[ph].Bytes < a.Peak[ph].Bytes {
				t.Fatalf("%s peak falls from %d to %d with B %d instead of %d\n%s", ph, a.Peak[ph].Bytes, b.Peak[ph].Bytes, large.B, small.B, show(pl))
			}
		}
		if b.BeforeBackward < a.BeforeBackward {
			t.Fatalf("before backward falls from %d to %d", a.BeforeBackward, b.BeforeBackward)
		}
	})
}

// Equivalent ways of saying the same give the same bytes, and a timeline's explanation adds up to its peak.
func TestTimelinesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, err := model.Build(genSpec(t), build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := Compile(g)
		pl := genPlan(t, g)
		tl := timelineOf(t, p, pl)
		if again := timelineOf(t, p, pl); again.Second != tl.Second || again.FirstStep() != tl.FirstStep() {
			t.Fatalf("two simulations differ:\n%+v\n%+v", tl.Second, again.Second)
		}
		var sum int64
		for _, o := range tl.Explain().Owners {
			if o.Bytes() < 0 {
				t.Fatalf("%+v", o)
			}
			sum += int64(o.Bytes())
		}
		if sum != tl.Peak.Bytes {
			t.Fatalf("owners hold %d of the peak's %d\n%s", sum, tl.Peak.Bytes, show(pl))
		}
		static := int64(tl.Parameters + tl.Inputs + tl.Optimizer)
		for ph := Forward; ph < Phases; ph++ {
			if b := tl.Second.Peak[ph].Bytes; b != 0 && b < static {
				t.Fatalf("%s peaks at %d, below the %d of weights, inputs and state", ph, b, static)
			}
		}
		same := func(a, b string) {
			x, err := plan.Named(a, g.Layers)
			if err != nil {
				t.Fatal(err)
			}
			y, err := plan.Named(b, g.Layers)
			if err != nil {
				t.Fatal(err)
			}
			if u, v := timelineOf(t, p, x).Second, timelineOf(t, p, y).Second; u != v {
				t.Fatalf("%s and %s differ:\n%+v\n%+v", a, b, u, v)
			}
		}
		same("full", "segments-1")
		same("full", "every-1")
		same("full", fmt.Sprint("first-", g.Layers))
		same("full", fmt.Sprint("last-", g.Layers))
	})
}

// Checkpointing every layer never keeps more for backward than keeping everything, but for what its layers read and
// autograd does not need (masks, tables, position ids).
func TestFullKeepsLessThanNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, err := model.Build(genSpec(t), build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := Compile(g)
		none, full := timelineOf(t, p, &plan.Plan{}), timelineOf(t, p, &plan.Plan{Nodes: []plan.Node{{Last: g.Layers - 1, Option: &plan.Full}}})
		var shared int64
		sch := scheduleOf(t, p, &plan.Plan{Nodes: []plan.Node{{Last: g.Layers - 1, Option: &plan.Full}}})
		seen := map[graph.StorageID]bool{}
		for _, r := range sch.Regions {
			for _, st := range r.Inputs {
				if !seen[st] && !requiresGrad(g, st) {
					seen[st] = true
					shared += g.Storages[st].Bytes
				}
			}
		}
		if d := full.Second.BeforeBackward - none.Second.BeforeBackward; d > shared {
			t.Fatalf("full keeps %d bytes more, of which %d are masks and tables", d, shared)
		}
	})
}

// requiresGrad is true for a storage with a tensor that gradients flow through.
func requiresGrad(g *graph.Graph, st graph.StorageID) bool {
	for i := range g.Tensors {
		if g.Tensors[i].Storage == st && g.Tensors[i].Grad {
			return true
		}
	}
	return false
}
