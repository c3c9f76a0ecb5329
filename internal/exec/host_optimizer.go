package exec

import (
	"math"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
)

// Hyperparameters of the optimizers: PyTorch's defaults for AdamW.
const (
	hostRate  = 1e-3
	hostBeta1 = 0.9
	hostBeta2 = 0.999
	hostEps   = 1e-8
	hostDecay = 0.01
)

// rules are the updates of one parameter that the engine computes, by the optimizer's arithmetic.
var rules = map[string]func(e *hostEngine, i int, g *hostGrad){"adamw": (*hostEngine).adamW, "sgd": (*hostEngine).sgd}

// optimize updates the parameters and frees the gradients (set_to_none). What it makes and keeps is the optimizer's row;
// state is made at the first step.
func (e *hostEngine) optimize() {
	if row := e.schedule.Optimizer; row.Passes > 0 {
		e.begin(memory.Optimizer)
		e.steps++
		var lists, last []*hostBuffer // of all parameters, and of the parameter before
		e.eachUpdated(func(i int, p hostTensor) {
			if e.moment[i] == nil {
				e.moment[i] = e.like(p, slices.Repeat([]string{"aten.zeros_like"}, row.State))
				if row.Counter > 0 {
					e.moment[i] = append(e.moment[i], e.alloc("aten.zeros", model.F32, row.Counter/model.F32.Size()))
				}
			}
		})
		e.eachUpdated(func(_ int, p hostTensor) { lists = append(lists, e.like(p, row.AtOnce)...) })
		e.eachUpdated(func(i int, p hostTensor) {
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
func (e *hostEngine) eachUpdated(do func(i int, p hostTensor)) {
	for _, i := range e.g.Registered() {
		if e.grads[i] != nil {
			do(int(i), e.param(int(i)))
		}
	}
}

// like makes a tensor of p's shape and type by each of the calls.
func (e *hostEngine) like(p hostTensor, calls []string) (out []*hostBuffer) {
	for _, aten := range calls {
		out = append(out, e.alloc(aten, p.dtype, p.count()))
	}
	return out
}

func releaseAll(bs []*hostBuffer) {
	for _, b := range bs {
		b.release()
	}
}

// sgd is p ← p − lr·g.
func (e *hostEngine) sgd(i int, g *hostGrad) {
	p, grad := e.param(i), g.reals()
	r := make([]float32, len(grad))
	for k, v := range p.reals() {
		r[k] = v - hostRate*grad[k]
	}
	p.setReals(r)
}

// param is parameter i as a tensor.
func (e *hostEngine) param(i int) hostTensor {
	x := &e.g.Tensors[e.g.Params[i].Tensor]
	return x2t(x, e.static[x.Storage])
}

// adamW is one parameter's step:
//
//	p ← p·(1 − lr·λ);  m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²
//	p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)
func (e *hostEngine) adamW(i int, g *hostGrad) {
	p, state := e.param(i), e.moment[i]
	state[2].reals[0]++
	t := float64(state[2].reals[0])
	rate, root := hostRate/(1-math.Pow(hostBeta1, t)), math.Sqrt(1-math.Pow(hostBeta2, t))
	m, v, dt := state[0].reals, state[1].reals, p.dtype
	values := p.reals()
	r := make([]float32, len(values))
	for k, x := range g.reals() {
		grad := float64(x)
		m[k] = roundTo(dt, float32(hostBeta1*float64(m[k])+(1-hostBeta1)*grad))
		v[k] = roundTo(dt, float32(hostBeta2*float64(v[k])+(1-hostBeta2)*grad*grad))
		r[k] = float32(float64(values[k])*(1-hostRate*hostDecay) - rate*float64(m[k])/(math.Sqrt(float64(v[k]))/root+hostEps))
	}
	p.setReals(r)
}
