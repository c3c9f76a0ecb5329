package interpreter

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/dtype"
)

// rules are the updates of one parameter that the engine computes, by the optimizer's arithmetic.
var rules = map[string]func(e *engine, i int, g *gradient){"adamw": (*engine).adamW, "sgd": (*engine).sgd}

// optimize updates the parameters and frees the gradients (set_to_none). The optimizer's row says what it allocates
// and keeps; state is made at the first step.
func (e *engine) optimize() {
	if row := e.schedule.Optimizer; row.Passes > 0 {
		e.begin(memory.Optimizer)
		e.steps++
		var lists, last []*buffer // of all parameters, and of the parameter before
		e.eachUpdated(func(i int, p tensor) {
			if e.moment[i] == nil {
				for _, aten := range row.State {
					e.moment[i] = append(e.moment[i], e.zeros(aten, p.DType, p.Count()))
				}
				if row.Counter > 0 {
					e.moment[i] = append(e.moment[i], e.zeros("aten.zeros", dtype.F32, row.Counter/dtype.F32.Size()))
				}
			}
		})
		e.eachUpdated(func(_ int, p tensor) { lists = append(lists, e.like(p, row.AtOnce)...) })
		e.eachUpdated(func(i int, p tensor) {
			made := e.like(p, row.OneByOne)
			if n := len(made) - 1; n >= 0 {
				releaseAll(made[:n])
				releaseAll(last)
				last = made[n:]
			}
			rules[row.Rule](e, i, e.grads[i])
		})
		releaseAll(lists)
		releaseAll(last)
	}
	for i, g := range e.grads {
		if g != nil {
			e.grads[i] = nil
			g.drop()
		}
	}
}

// eachUpdated gives every parameter that has a gradient, in the order of an optimizer's list.
func (e *engine) eachUpdated(do func(i int, p tensor)) {
	for _, i := range e.g.Step.Registered {
		if e.grads[i] != nil {
			do(int(i), e.param(int(i)))
		}
	}
}

// like makes a tensor of p's shape and type by each of the calls.
func (e *engine) like(p tensor, calls []string) (out []*buffer) {
	for _, aten := range calls {
		out = append(out, e.alloc(aten, p.DType, p.Count()))
	}
	return out
}

func releaseAll(bs []*buffer) {
	for _, b := range bs {
		b.release()
	}
}

func (e *engine) sgd(i int, g *gradient) { e.apply(gpu.SGD, e.param(i).at(), g.at()) }

// param is parameter i as a tensor.
func (e *engine) param(i int) tensor {
	x := &e.g.Tensors[e.g.Params[i].Tensor]
	return over(x, e.static[x.Storage])
}

// adamW is one parameter's step.
func (e *engine) adamW(i int, g *gradient) {
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
