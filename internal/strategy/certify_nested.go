package strategy

import (
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// certified writes a chain and what its solution claims, layers with equal numbers together.
func (m *nestedModel) certified(sol *solve.NestedSolution) *plan.CertifiedChain {
	c := m.chain
	out := &plan.CertifiedChain{
		Base: unit.Bytes(c.Base), Input: unit.Bytes(c.Input), Floor: unit.Bytes(c.Floor), MaxForwards: c.MaxForwards,
		Limit: unit.Bytes(sol.Limit), Peak: unit.Bytes(sol.Peak), Time: sol.Time, Bound: sol.Bound,
		Head: plan.ChainHead{
			Forward: unit.Bytes(c.Loss[0].Forward), Backward: unit.Bytes(c.Loss[0].Backward), Gradient: unit.Bytes(c.LossGrad), Time: c.Loss[0].Time,
		},
	}
	tensors := func(i int) plan.ChainTensors {
		s := &c.Stages[i]
		return plan.ChainTensors{Output: unit.Bytes(s.Output), Gradient: unit.Bytes(s.Gradient), ParametersGradient: unit.Bytes(s.Grad)}
	}
	for _, g := range alike(len(c.Stages), tensors) {
		t := tensors(g[0])
		t.Layers = plan.FormatLayers(g)
		out.Layers = append(out.Layers, t)
	}
	for n, k := range m.options {
		prices := func(i int) plan.ChainPrice {
			o := &c.Stages[i].Options[n]
			return plan.ChainPrice{
				Saved: unit.Bytes(o.Saved), ForwardOverhead: unit.Bytes(o.ForwardOverhead), BackwardOverhead: unit.Bytes(o.BackwardOverhead),
				Forward: o.Forward, Backward: o.Backward, EarlyStop: o.EarlyStop,
			}
		}
		o := plan.ChainOption{Option: m.menu[k]}
		for _, g := range alike(len(c.Stages), prices) {
			p := prices(g[0])
			p.Layers = plan.FormatLayers(g)
			o.Rows = append(o.Rows, p)
		}
		out.Options = append(out.Options, o)
	}
	return out
}
