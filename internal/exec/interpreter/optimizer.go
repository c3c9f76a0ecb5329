package interpreter

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
)

// optimize updates the parameters and lets go of the gradients (set_to_none).
//
// AdamW keeps exp_avg, exp_avg_sq in the parameter's type and a step count in fp32, made at its first step. Its foreach
// form makes √exp_avg_sq of all parameters with a gradient at once, the loop form a root and a quotient of one parameter at a time while
// the quotient of the one before is still a local, the fused form nothing.
// Source: torch/optim/adamw.py, adam.py.
func (e *engine) optimize(kind string) {
	if kind != "none" {
		e.begin(memory.Optimizer)
		e.steps++
		if kind == "sgd" {
			e.sgd()
		} else {
			e.adamW(kind)
		}
	}
	for i, g := range e.grads {
		if g != nil {
			e.grads[i] = nil
			g.drop()
		}
	}
}

func (e *engine) sgd() {
	for i, g := range e.grads {
		if g != nil {
			e.apply(gpu.SGD, e.param(i).at(), g.at())
		}
	}
}

// param is parameter i as a tensor.
func (e *engine) param(i int) tensor {
	x := &e.g.Tensors[e.g.Params[i].Tensor]
	return over(x, e.static[x.Storage])
}

func (e *engine) adamW(kind string) {
	for i := range e.grads {
		if e.grads[i] == nil || e.moment[i] != nil {
			continue
		}
		p := e.param(i)
		e.moment[i] = []*buffer{
			e.zeros("aten.zeros_like", p.DType, p.Count()), e.zeros("aten.zeros_like", p.DType, p.Count()), e.zeros("aten.zeros", model.F32, 1),
		}
	}
	var roots []*buffer
	if kind == "adamw" { // foreach: one list for all
		for i, g := range e.grads {
			if g != nil {
				p := e.param(i)
				roots = append(roots, e.alloc("aten._foreach_sqrt", p.DType, p.Count()))
			}
		}
	}
	var quotient *buffer
	for _, k := range e.g.Registered() {
		i, g := int(k), e.grads[k]
		if g == nil {
			continue
		}
		if kind == "adamw-loop" {
			p := e.param(i)
			root := e.alloc("aten.sqrt", p.DType, p.Count())
			next := e.alloc("aten.div", p.DType, p.Count())
			root.release()
			if quotient != nil {
				quotient.release()
			}
			quotient = next
		}
		e.update(i, g)
	}
	for _, r := range roots {
		r.release()
	}
	if quotient != nil {
		quotient.release()
	}
}

// update is one parameter's AdamW step.
func (e *engine) update(i int, g *gradient) {
	p := e.param(i).at()
	out := []gpu.Tensor{p}
	for k, b := range e.moment[i] {
		t := b.whole()
		if k < 2 {
			t = b.view(p.Shape, p.Shape.Contiguous(), 0)
		}
		out = append(out, t.at())
	}
	e.launch(gpu.AdamW, &gpu.Args{In: []gpu.Tensor{g.at()}, Out: out})
}
