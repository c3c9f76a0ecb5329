package strategy

import (
	"context"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/menu"
	"ckptplan/internal/strategy/solve"
)

// space is what a search chooses from: a menu of options for every layer, for plans of one kind, and the graphs that they
// run on.
type space struct {
	graphs
	*menu.Menu
	host int64 // most bytes in host memory; 0: no cap

	lowest         *solve.Solution // see lowestByRows
	lowestTimeline *memory.Timeline
}

// space is that of a request and of the options that are allowed (nil: all), without those that others beat.
func (g graphs) space(ctx context.Context, req Request, allowed func(*plan.Option) bool) (*space, error) {
	var more []plan.Option
	if req.Offload {
		more = menu.Offload(req.OffloadWindow)
	}
	m, err := menu.Price(ctx, g.of(req.kind), req.Sheet, req.allows, more...)
	if err != nil {
		return nil, err
	}
	return &space{graphs: g, Menu: m.Only(allowed, req.HostMemory > 0), host: int64(req.HostMemory)}, nil
}

// only is the space of plans that choose among some of the options, without a cap on host memory.
func (sp *space) only(allowed func(*plan.Option) bool) *space {
	return &space{graphs: sp.graphs, Menu: sp.Only(allowed, false)}
}
