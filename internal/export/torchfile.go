package export

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ckptplan/internal/exec/torch"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
	"ckptplan/internal/unit"
)

// TorchFile is a Python file whose function apply makes a Hugging Face model run a plan: every region under
// torch.utils.checkpoint, at the parts of the layers that the plan names. Its functions are those that verify runs.
// g is the graph that the plan runs on.
func TorchFile(f *plan.File, g *graph.Graph) (string, error) {
	m := class.ModuleOf(f.Spec)
	if m == nil {
		return "", fmt.Errorf("target torch: arch %s is not a class of Hugging Face transformers, whose parts the file names", f.Spec.Arch)
	}
	nodes, err := plan.Resolve(g, f.Nodes)
	if err != nil {
		return "", err
	}
	w := &torchFile{module: m, uses: map[string]bool{}, spans: map[string]string{}}
	table := w.table(nodes, "    ")
	if w.err != nil {
		return "", w.err
	}
	var out strings.Builder
	w.head(&out, f, g)
	if err := w.definitions(&out); err != nil {
		return "", err
	}
	w.apply(&out, g.Layers, table)
	return out.String(), nil
}

// torchFile is a file being written.
type torchFile struct {
	module *class.Module
	uses   map[string]bool   // definitions, as file:name
	spans  map[string]string // how the file finds a part
	err    error
}

// table is the plan as Python: (first, last, what runs as one region), where equal layers are together.
func (w *torchFile) table(nodes []plan.Resolved, indent string) string {
	var out strings.Builder
	for i := 0; i < len(nodes); {
		n := &nodes[i]
		if n.Segment {
			w.uses["plans.py:Segment"], w.uses["region.py:region"] = true, true
			fmt.Fprintf(&out, "%s(%d, %d, \"together\", [\n%s%s]),\n", indent, n.First, n.Last, w.table(n.Inner, indent+"    "), indent)
			i++
			continue
		}
		row := w.regions(n.Regions)
		last := i
		for last+1 < len(nodes) && !nodes[last+1].Segment && nodes[last+1].First == nodes[last].Last+1 && w.regions(nodes[last+1].Regions) == row {
			last++
		}
		fmt.Fprintf(&out, "%s(%d, %d, \"each\", [%s]),\n", indent, n.First, nodes[last].Last, row)
		i = last + 1
	}
	return out.String()
}

// regions are the regions of a layer as Python: (part, ops kept, what goes to the host).
func (w *torchFile) regions(rs []plan.ResolvedRegion) string {
	var rows []string
	for _, r := range rs {
		w.part(r.Span)
		var kept []string
		if len(r.Cached) > 0 {
			w.uses["checkpointing.py:Cache"] = true
		}
		for _, c := range r.Cached {
			kept = append(kept, fmt.Sprintf("{%q: %q, %q: %d}", "op", c.Op, "ordinal", c.Ordinal))
		}
		switch r.Offload {
		case "":
			w.uses["region.py:region"] = true
		case "saved":
			w.uses["region.py:saved_on_host"], w.uses["offload.py:Host"] = true, true
		default:
			w.uses["region.py:region"], w.uses["region.py:inputs_on_host"], w.uses["offload.py:Host"] = true, true, true
		}
		rows = append(rows, fmt.Sprintf("(%q, [%s], %q)", r.Span, strings.Join(kept, ", "), r.Offload))
	}
	return strings.Join(rows, ", ")
}

// part writes how a part of a layer is found.
func (w *torchFile) part(span string) {
	if w.spans[span] != "" {
		return
	}
	use := func(kind string, args ...string) {
		w.uses["parts.py:"+kind] = true
		w.spans[span] = fmt.Sprintf("%s(%s)", kind, strings.Join(args, ", "))
	}
	if span == "layer" {
		use("Whole", "layer")
		return
	}
	p, ok := w.module.Parts[span]
	if !ok {
		w.err = fmt.Errorf("target torch: the part %s of this class is not a region of its own in PyTorch", span)
		return
	}
	at := make([]string, len(p.At))
	for i, path := range p.At {
		at[i] = dotted(path)
	}
	switch p.Kind {
	case "module":
		use("Whole", at[0])
	case "modules":
		w.uses["parts.py:Whole"], w.uses["parts.py:has"], w.uses["parts.py:at"] = true, true, true
		use("Together", fmt.Sprintf("[Whole(at(layer, p)) for p in %s if has(layer, p)]", list(p.At)))
	case "row":
		use("Row", "["+strings.Join(at, ", ")+"]")
	case "method":
		owner, name, found := cutLast(p.At[0])
		if !found {
			owner, name = "", p.At[0]
		}
		use("Method", dotted(owner), strconv.Quote(name))
	case "core":
		use("Core", at[0])
	case "kernel":
		use("Kernel", at[0])
	case "fan":
		use("fan", "layer", at[0], fmt.Sprintf("{%q: %q, %q: %s}", "owner", p.Owner, "readers", list(p.Readers)))
	case "gated":
		use("GatedDown", at[0])
	case "packed":
		use("PackedDown", at[0])
	case "after first":
		use("AfterFirst", at[0])
	default:
		w.err = fmt.Errorf("target torch: the part %s of this class is not a region of its own in PyTorch", span)
	}
}

// dotted is a path inside a layer as an expression: layer.mlp.act, layer.layer[-1].x.
func dotted(path string) string {
	out := "layer"
	if path == "" {
		return out
	}
	for name := range strings.SplitSeq(path, ".") {
		if _, err := strconv.Atoi(name); err == nil {
			out += "[" + name + "]"
		} else {
			out += "." + name
		}
	}
	return out
}

func cutLast(path string) (before, after string, found bool) {
	if i := strings.LastIndex(path, "."); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// head says what the file does, for which model, and what it is expected to need.
func (w *torchFile) head(out *strings.Builder, f *plan.File, g *graph.Graph) {
	s := f.Spec
	fmt.Fprintf(out, "\"\"\"A checkpoint plan as code: %s for %s.\n\n", cmp.Or(f.Strategy, "written by hand"), s.Name)
	out.WriteString("    import checkpoint_plan\n    checkpoint_plan.apply(model)\n\n")
	out.WriteString("Call apply once, on the Hugging Face model itself and before the first step, in place of gradient_checkpointing_enable().\n\n")
	fmt.Fprintf(out, "made by     ckptplan %s, plan for settings %s\n", f.Tool, plan.Fingerprint(s))
	fmt.Fprintf(out, "model       %s, %d layers, micro batch %d, %d tokens, %s, %s attention, %s\n", s.Name, g.Layers, s.B, s.S, s.Precision, s.Attention, s.Train.Optimizer)
	if p := f.Predicted; p != nil {
		fmt.Fprintf(out, "peak        %s of tensors expected, in %s of %s\n", unit.Bytes(p.Peak).Both(), p.Phase, p.Block)
	}
	if f.Budget > 0 {
		fmt.Fprintf(out, "budget      %s\n", f.Budget.Both())
	}
	out.WriteString("\"\"\"\n")
}

// needs are the definitions that others use.
var needs = map[string][]string{
	"region.py:region":       {"checkpointing.py:forgetful"},
	"parts.py:Fan":           {"parts.py:waiting", "parts.py:follow", "parts.py:forward_of", "parts.py:set_forward"},
	"parts.py:fan":           {"parts.py:Fan", "parts.py:at"},
	"parts.py:Core":          {"parts.py:routed", "parts.py:functions_of"},
	"parts.py:has":           {"parts.py:at"},
	"checkpointing.py:Cache": {},
	// an early stop leaves results of a fan behind
	"checkpointing.py:forgetful": {"parts.py:waiting", "parts.py:forget"},
}

// definitions writes the functions and classes that the plan needs, and their imports.
func (w *torchFile) definitions(out *strings.Builder) error {
	for {
		n := len(w.uses)
		for u := range w.uses {
			for _, v := range needs[u] {
				w.uses[v] = true
			}
		}
		if len(w.uses) == n {
			break
		}
	}
	order := []string{
		"parts.py:waiting", "parts.py:forget", "checkpointing.py:forgetful", "checkpointing.py:Cache", "region.py:region", "offload.py:Host", "region.py:saved_on_host",
		"region.py:inputs_on_host", "parts.py:at", "parts.py:has", "parts.py:Whole", "parts.py:Together", "parts.py:Row", "parts.py:Method", "parts.py:forward_of", "parts.py:set_forward",
		"parts.py:follow", "parts.py:Fan", "parts.py:fan", "parts.py:GatedDown", "parts.py:PackedDown", "parts.py:AfterFirst", "parts.py:routed", "parts.py:functions_of", "parts.py:Core", "parts.py:Kernel", "plans.py:Segment",
	}
	var body strings.Builder
	for _, name := range order {
		if !w.uses[name] {
			continue
		}
		file, def, _ := strings.Cut(name, ":")
		src, err := torch.Definition(file, def)
		if err != nil {
			return err
		}
		src = strings.ReplaceAll(src, "parts.forget()", "forget()")
		if !strings.HasPrefix(src, "#") && !strings.Contains(strings.SplitN(src, "\n", 2)[0], " = ") {
			body.WriteString("\n")
		}
		body.WriteString("\n" + src)
	}
	text := body.String()
	var imports []string
	for _, m := range []string{"collections", "functools", "sys"} {
		if strings.Contains(text, m+".") {
			imports = append(imports, "import "+m)
		}
	}
	if len(imports) > 0 {
		imports = append(imports, "")
	}
	imports = append(imports, "import torch")
	if strings.Contains(text, "nn.Module") {
		imports = append(imports, "from torch import nn")
	}
	if w.uses["parts.py:Kernel"] {
		imports = append(imports, "from torch.nn import functional")
	}
	if w.uses["offload.py:Host"] {
		imports = append(imports, "from torch.autograd.graph import saved_tensors_hooks")
	}
	if w.caches() {
		imports = append(imports, "from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts")
	} else {
		imports = append(imports, "from torch.utils.checkpoint import checkpoint")
	}
	imports = append(imports, "from transformers.modeling_layers import GradientCheckpointingLayer")
	out.WriteString(strings.Join(imports, "\n") + "\n")
	if !w.caches() {
		text = strings.Replace(text, "    if keep:\n        how[\"context_fn\"] = Cache(name, keep).contexts\n", "", 1)
	}
	out.WriteString(text)
	return nil
}

// caches is true if a region keeps ops.
func (w *torchFile) caches() bool { return w.uses["checkpointing.py:Cache"] }

// apply writes the plan and the function that applies it.
func (w *torchFile) apply(out *strings.Builder, layers int, table string) {
	fmt.Fprintf(out, "\n\n# Layers first to last: \"each\" has its regions (part, ops kept, what goes to the host); \"together\" is one region, with regions inside.\nLAYERS = %d\nPLAN = [\n%s]\n", layers, table)
	out.WriteString("\n\ndef part(layer, name):\n    \"\"\"How a part of a layer runs as one region.\"\"\"\n")
	for _, span := range slices.Sorted(maps.Keys(w.spans)) {
		fmt.Fprintf(out, "    if name == %q:\n        return %s\n", span, w.spans[span])
	}
	out.WriteString(`    raise ValueError(f"no part {name}")


def apply(model):
    """Makes the model run the plan. ValueError if it has other layers."""
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    if len(layers) != LAYERS:
        raise ValueError(f"the plan is for {LAYERS} layers, the model has {len(layers)}")
`)
	if w.uses["offload.py:Host"] {
		out.WriteString("    host = Host(model, next(model.parameters()).device)\n")
	} else {
		out.WriteString("    host = None\n")
	}
	if _, whole := w.spans["layer"]; whole || w.uses["plans.py:Segment"] {
		out.WriteString(`    for module in model.modules():  # as gradient_checkpointing_enable tells modules that are not layers
        if hasattr(module, "gradient_checkpointing") and not isinstance(module, GradientCheckpointingLayer):
            module.gradient_checkpointing = True
`)
	}
	out.WriteString("    walk(layers, PLAN, host)\n\n\ndef walk(layers, rows, host):\n    for first, last, how, inside in rows:\n")
	if w.uses["plans.py:Segment"] {
		fmt.Fprintf(out, "        if how == \"together\":\n            walk(layers, inside, host)\n            Segment(layers[first:last + 1], region(f\"layers {first} to {last}\"), %s).wrap()\n            continue\n", map[bool]string{true: "True", false: "False"}[w.module.Tuple])
	}
	out.WriteString("        for i in range(first, last + 1):\n            for name, keep, moved in inside:\n")
	run := "region(f\"layer {i} {name}\", keep)"
	switch {
	case w.uses["region.py:saved_on_host"] && w.uses["region.py:inputs_on_host"]:
		run = "saved_on_host(host) if moved == \"saved\" else inputs_on_host(host, " + run + ") if moved else " + run
	case w.uses["region.py:saved_on_host"] && w.uses["region.py:region"]:
		run = "saved_on_host(host) if moved else " + run
	case w.uses["region.py:saved_on_host"]:
		run = "saved_on_host(host)"
	case w.uses["region.py:inputs_on_host"]:
		run = "inputs_on_host(host, " + run + ") if moved else " + run
	}
	fmt.Fprintf(out, "                run = %s\n                part(layers[i], name).wrap(run)\n", run)
}
