package memory

import (
	"strings"

	"ckptplan/internal/model"
)

// optimizerState is what the optimizer keeps from its first step on.
type optimizerState struct {
	bytes int64
}

// AdamW keeps two tensors like each parameter, in the parameter's dtype, and a step count of 4 bytes a tensor.
// Its foreach form (PyTorch's default) makes √exp_avg_sq of all parameters at once; the loop form makes a root and a
// quotient of one parameter at a time while the last parameter's quotient is still a local; the fused kernel nothing.
// SGD without momentum and weight decay keeps and makes nothing.
// Source: torch/optim/adamw.py, adam.py (_multi_tensor_adam, _single_tensor_adam), sgd.py.
func (m *machine) optimizer(kind string) {
	m.phase, m.op, m.again = Optimizer, -1, false
	if kind == "none" {
		m.zeroGrad()
		m.res.AfterStep = m.live
		return
	}
	m.mark("start")
	adam := kind != "sgd"
	var all int64
	for i, p := range m.g.Params {
		if p.Trained && m.grad[i] != 0 {
			all += p.Bytes
		}
	}
	if adam && m.state == nil {
		m.settle()
		m.mark("aten.zeros_like")
	}
	switch kind {
	case "adamw":
		m.live += all
		m.mark("aten._foreach_sqrt")
		m.live -= all
	case "adamw-loop":
		var last int64
		for _, i := range m.g.Step.Registered {
			p := &m.g.Params[i]
			if !p.Trained || m.grad[i] == 0 {
				continue
			}
			m.live += p.Bytes
			m.mark("aten.sqrt")
			m.live += p.Bytes
			m.mark("aten.div")
			m.live -= p.Bytes + last
			last = p.Bytes
		}
		m.live -= last
	}
	m.zeroGrad()
	m.res.AfterStep = m.live
	if m.cost != nil {
		m.time.Optimizer += m.cost.sheet.OpTime(0, all*passes[kind], model.F32, false)
	}
}

// settle gives the optimizer its state: what it makes in its first step, for the parameters that backward reaches.
func (m *machine) settle() {
	if m.state != nil || !strings.HasPrefix(m.g.Step.Optimizer, "adamw") {
		return
	}
	m.state = &optimizerState{}
	done := make([]bool, len(m.g.Params))
	for _, l := range m.p.tape.leaves {
		if !done[l.param] {
			done[l.param] = true
			m.state.bytes += 2*m.g.Params[l.param].Bytes + 4
		}
	}
	m.live += m.state.bytes
}

// passes is how often an update crosses the memory bus, in reads and writes of one parameter-sized list: foreach and
// loop run ten elementwise kernels (mul_, lerp_, mul_, addcmul_, sqrt, div_, add_, addcdiv_ and two on the step), the
// fused kernel reads parameter, gradient and two moments and writes three of them; SGD adds the gradient.
var passes = map[string]int64{"adamw": 20, "adamw-loop": 20, "adamw-fused": 7, "sgd": 3}

// zeroGrad frees all gradients (set_to_none).
func (m *machine) zeroGrad() {
	for i := range m.grad {
		if m.grad[i] != 0 {
			m.live -= m.p.tape.grads[m.grad[i]-1].bytes
			m.grad[i] = 0
		}
	}
}
