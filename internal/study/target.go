package study

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/strategy"
)

// restricted finds the fastest plan that the target can run, and what the restriction costs.
func (s *Study) restricted(ctx context.Context) (*Optimization, error) {
	p, err := s.program()
	if err != nil {
		return nil, err
	}
	res, err := strategy.OptimizeFor(ctx, p, s.Request.Request, s.Target.Expressible(s.Spec, s.layers()))
	var none *strategy.NoPlanError
	switch {
	case errors.As(err, &none):
		return s.noneFor(ctx, none)
	case err != nil:
		return nil, err
	}
	price := res.Overhead()
	free := &Simulation{Choice: Choice{Name: "unrestricted", Plan: res.Free.Plan}, Timeline: res.Free.Timeline}
	o, err := s.optimization(res.Result, free)
	if err != nil {
		return nil, err
	}
	o.Target, o.Shape, o.RestrictionPrice = s.Target.Name, res.Shape, &price
	o.Explanation = o.explain(res.Plan)
	if price != 0 {
		o.Explanation = append(o.Explanation, fmt.Sprintf("The unrestricted plan is to %s.", PlanWords(res.Free.Plan, o.Model.Layers)))
	}
	return o, nil
}

// noneFor separates a target that has no plan from a budget that has no plan at all.
func (s *Study) noneFor(ctx context.Context, none *strategy.NoPlanError) (*Optimization, error) {
	o, err := s.without(ctx, none)
	if err != nil {
		return nil, err
	}
	o.Target = s.Target.Name
	if o.Plan != nil {
		return o, nil
	}
	if free, err := s.search(ctx); err == nil {
		o.Refusal = fmt.Sprintf("no plan that %s can run fits %s: its smallest budget is %s; without --target there is a plan: %s",
			s.Target.Title, s.Budget.Both(), none.Smallest.Both(), PlanWords(free.Plan, o.Model.Layers))
		o.Reason = o.Refusal
	}
	return o, nil
}
