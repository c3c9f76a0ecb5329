package exec

import (
	"math"

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

// optimize updates the parameters and lets go of the gradients (set_to_none).
//
// AdamW keeps exp_avg, exp_avg_sq in the parameter's type and a step count in fp32, made at its first step. Its foreach
// form makes √exp_avg_sq of all parameters with a gradient at once, the loop form a root and a quotient of one parameter at a time while
// the quotient of the one before is still a local, the fused form nothing.
// Source: torch/optim/adamw.py, adam.py.
func (e *hostEngine) optimize(kind string) {
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

func (e *hostEngine) sgd() {
	for i, g := range e.grads {
		if g == nil {
			continue
		}
		p := e.param(i)
		grad := g.reals()
		r := make([]float32, len(grad))
		for k, v := range p.reals() {
			r[k] = v - hostRate*grad[k]
		}
		p.setReals(r)
	}
}

// param is parameter i as a tensor.
func (e *hostEngine) param(i int) hostTensor {
	x := &e.g.Tensors[e.g.Params[i].Tensor]
	return x2t(x, e.static[x.Storage])
}

func (e *hostEngine) adamW(kind string) {
	for i := range e.grads {
		if e.grads[i] == nil || e.moment[i] != nil {
			continue
		}
		p := e.param(i)
		e.moment[i] = []*hostBuffer{
			e.alloc("aten.zeros_like", p.dtype, p.count()), e.alloc("aten.zeros_like", p.dtype, p.count()), e.alloc("aten.zeros", model.F32, 1),
		}
	}
	var roots []*hostBuffer
	if kind == "adamw" { // foreach: one list for all
		for i, g := range e.grads {
			if g != nil {
				p := e.param(i)
				roots = append(roots, e.alloc("aten._foreach_sqrt", p.dtype, p.count()))
			}
		}
	}
	var quotient *hostBuffer
	for _, k := range e.g.Step.Registered {
		i, g := int(k), e.grads[k]
		if g == nil {
			continue
		}
		if kind == "adamw-loop" {
			p := e.param(i)
			root := e.alloc("aten.sqrt", p.dtype, p.count())
			next := e.alloc("aten.div", p.dtype, p.count())
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

// update is one parameter's AdamW step:
//
//	p ← p·(1 − lr·λ);  m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²
//	p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)
func (e *hostEngine) update(i int, g *hostGrad) {
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
