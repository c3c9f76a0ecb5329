package report

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy"
)

// restricted finds the fastest plan that the target can run, and what the restriction costs.
func (s *Study) restricted(ctx context.Context, p *memory.Program, r strategy.Request, req OptimizeRequest) (*Optimization, error) {
	res, err := strategy.OptimizeFor(ctx, p, r, req.Target)
	var none *strategy.NoPlanError
	switch {
	case errors.As(err, &none) && none.Leanest != nil && s.fit(req, none.Leanest) == Tight:
		o, err := s.tightPlan(ctx, req, none)
		if err != nil {
			return nil, err
		}
		o.Target = req.Target.Name
		return o, nil
	case errors.As(err, &none) && none.Leanest != nil:
		return s.targetInfeasible(ctx, p, r, req, none)
	case err != nil:
		return nil, err
	}
	price := res.Price()
	free, err := s.settle(Choice{Name: "unrestricted", Plan: res.Free.Plan}, res.Free.Timeline)
	if err != nil {
		return nil, err
	}
	o, err := s.optimization(req, res.Result, free)
	if err != nil {
		return nil, err
	}
	o.Target, o.Shape, o.RestrictionPrice = req.Target.Name, res.Shape, &price
	o.Explanation = o.explain(res.Plan)
	if price != 0 {
		o.Explanation = append(o.Explanation, fmt.Sprintf("The unrestricted plan is to %s.", planWords(res.Free.Plan, o.Model.Layers)))
	}
	return o, nil
}

// targetInfeasible tells a target that has no plan from a budget for which there is none at all.
func (s *Study) targetInfeasible(ctx context.Context, p *memory.Program, r strategy.Request, req OptimizeRequest, none *strategy.NoPlanError) (*Optimization, error) {
	o, err := s.infeasible(ctx, req, none)
	if err != nil {
		return nil, err
	}
	o.Target = req.Target.Name
	if free, err := strategy.Optimize(ctx, p, r); err == nil {
		o.verdict = fmt.Sprintf("no plan that %s can run fits %s: its smallest budget is %s; without --target there is a plan: %s",
			req.Target.Title, req.Device.Both(), none.Smallest.Both(), planWords(free.Plan, o.Model.Layers))
		o.Reason = o.verdict
	}
	return o, nil
}

// targetFact is the target in one line, with what it costs.
func (o *Optimization) targetFact() Fact {
	return Fact{"target", fmt.Sprintf("%s: %s; %s", o.target.Title, o.Shape, restrictionWords(*o.RestrictionPrice))}
}

// restrictionWords is the price of a restriction: "+3.2 % step time against the unrestricted plan".
func restrictionWords(price float64) string {
	switch {
	case price == 0:
		return "as fast as the unrestricted plan"
	case price < 0: // the unrestricted search is of one class, and a target may run others
		return fmt.Sprintf("%s less step time than the plan without a target, which is of another class", percent(-100*price))
	}
	return fmt.Sprintf("+%s step time against the unrestricted plan", percent(100*price))
}
