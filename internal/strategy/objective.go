package strategy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/strategy/solve"
)

// TradeOff is the whole frontier of flat plans of a model, and the named strategies held against it.
type TradeOff struct {
	Points []solve.FrontierPoint
	// Loss is Frontier.Loss.
	Loss int64
	// BaseTime is the step without recompute, in nanoseconds; a point's Time comes on top.
	BaseTime int64
	// Quantum is what sizes were rounded up to inside the search, 0 for an exact one.
	Quantum int64
	Named   []Alternative
}

// leastQuantum is the first rounding that is tried where the exact search grows too large.
const leastQuantum = 1 << 20

// TradeOffs gives every non-dominated (peak, extra time) pair of the flat class in one pass. quantum above 1 rounds
// sizes up inside the search, in bytes. Where it is not given and the exact search grows too large, it is the least power
// of two, from 1 MiB, for which the search does not.
func TradeOffs(ctx context.Context, p *memory.Program, req Request, quantum int64) (*TradeOff, error) {
	g, err := graphsOf(p)
	if err != nil {
		return nil, err
	}
	none, err := g.judge(keepAll(), req.Sheet)
	if err != nil {
		return nil, err
	}
	t := &TradeOff{BaseTime: none.Times.Step()}
	for _, kind := range g.searched() {
		req.kind = kind
		if err := t.search(ctx, g, req, quantum); err != nil {
			return nil, err
		}
	}
	t.Points = append(t.Points, solve.FrontierPoint{Peak: none.Peak.Bytes}) // exact, where the search charges what layers share
	t.Points = undominated(t.Points)
	for _, name := range Baselines {
		if a, err := g.baseline(name, req.Sheet, req.Budget); err == nil {
			t.Named = append(t.Named, a)
		}
	}
	return t, nil
}

// search adds the frontier of the plans of one kind.
func (t *TradeOff) search(ctx context.Context, g graphs, req Request, quantum int64) error {
	p := g.of(req.kind)
	pr, err := g.price(p, req.Sheet, req.allows)
	if err != nil {
		return err
	}
	pr.prune(nil)
	prob := pr.problem(p.Graph)
	f, err := solve.SolveFrontier(ctx, prob, quantum)
	if quantum <= 1 {
		quantum = 0
		for q := int64(leastQuantum); errors.Is(err, solve.ErrEffort) && q <= solve.Largest/int64(len(prob.Blocks)+2); q *= 2 {
			quantum = q
			f, err = solve.SolveFrontier(ctx, prob, q)
		}
	}
	if err != nil {
		return err
	}
	t.Loss, t.Quantum = max(t.Loss, f.Loss), max(t.Quantum, quantum)
	more := (pr.keep.Times.Step() - t.BaseTime) / micro(pr.keep)
	for _, x := range f.Points {
		if x.Time > 0 || !g.differ() { // the plan that treats nothing runs on a graph of its own
			t.Points = append(t.Points, solve.FrontierPoint{Peak: x.Peak, Time: x.Time + more})
		}
	}
	return nil
}

// undominated are the points that no other beats in both peak and time, by rising peak.
func undominated(points []solve.FrontierPoint) []solve.FrontierPoint {
	slices.SortFunc(points, func(a, b solve.FrontierPoint) int {
		return cmp.Or(cmp.Compare(a.Peak, b.Peak), cmp.Compare(a.Time, b.Time))
	})
	var out []solve.FrontierPoint
	for _, p := range points {
		if len(out) == 0 || p.Time < out[len(out)-1].Time {
			out = append(out, p)
		}
	}
	return out
}

// Fastest is the extra time of the frontier at a peak, in nanoseconds; false if no point is that low.
func (t *TradeOff) Fastest(peak int64) (int64, bool) {
	time, ok := int64(0), false
	for _, p := range t.Points {
		if p.Peak > peak {
			break
		}
		time, ok = p.Time, true
	}
	return time, ok
}

// Leanest finds the plan of a class with the lowest peak.
func Leanest(ctx context.Context, p *memory.Program, req Request) (*Result, error) {
	g, err := graphsOf(p)
	if err != nil {
		return nil, err
	}
	if err := req.fitClass(g); err != nil {
		return nil, err
	}
	var best *Result
	for _, kind := range g.searched() {
		req.kind = kind
		res, err := g.leanest(ctx, req)
		if err != nil {
			return nil, err
		}
		if best == nil || res.leaner(best) {
			best = res
		}
	}
	return best, nil
}

// leaner is true if a plan has a lower peak than another, or as low a one in less time.
func (r *Result) leaner(than *Result) bool {
	a, b := r.Timeline, than.Timeline
	return a.Peak.Bytes < b.Peak.Bytes || a.Peak.Bytes == b.Peak.Bytes && a.Times.Step() < b.Times.Step()
}

// leanest is Leanest among the plans of one kind.
func (g graphs) leanest(ctx context.Context, req Request) (*Result, error) {
	p := g.of(req.kind)
	pr, err := g.price(p, req.Sheet, req.allows, req.more()...)
	if err != nil {
		return nil, err
	}
	pr.capped = req.HostMemory > 0
	pr.prune(nil)
	prob := pr.problem(p.Graph)
	prob.Budget = solve.Largest
	return pr.leanest(ctx, p, prob, req, nil)
}

// BatchRow is one micro-batch size of a throughput search.
type BatchRow struct {
	Batch, Accum int
	// Result is the fastest plan, nil if none fits.
	Result *Result
	// TokensPerSecond of the whole step; Ideal is without recompute, fitting or not.
	TokensPerSecond, Ideal float64
}

// Throughput tries micro-batch sizes and finds the one whose fastest plan under the budget trains the most tokens a
// second. With a global batch, gradients are accumulated to it and only its divisors are tried; otherwise powers of
// two, up to the first that nothing fits or that is too large to be estimated. Rows are by rising size; best is −1 if
// nothing fits.
func Throughput(ctx context.Context, s *model.Spec, req Request, global int) (rows []BatchRow, best int, err error) {
	best = -1
	for b := 1; b <= 4096; b++ {
		if global > 0 && (b > global || global%b != 0) || global == 0 && b&(b-1) != 0 {
			continue
		}
		c := *s
		c.B = b
		row := BatchRow{Batch: b, Accum: 1}
		if global > 0 {
			row.Accum = global / b
		}
		c.Train.GradAccum = row.Accum
		if len(rows) > 0 && c.TooLarge() {
			break
		}
		p, err := programOf(&c)
		if err != nil {
			return rows, best, err
		}
		tokens := float64(c.B * c.S * row.Accum)
		res, err := Optimize(ctx, p, req)
		var no *NoPlanError
		switch {
		case errors.As(err, &no):
		case err != nil:
			return rows, best, err
		default:
			row.Result = res
			row.TokensPerSecond = tokens * 1e9 / float64(res.Timeline.Times.Step())
		}
		for _, a := range alternatives(res, no) {
			if a.Name == "none" {
				row.Ideal = tokens * 1e9 / float64(a.Timeline.Times.Step())
			}
		}
		rows = append(rows, row)
		if row.Result == nil {
			break
		}
		if best < 0 || row.TokensPerSecond > rows[best].TokensPerSecond {
			best = len(rows) - 1
		}
	}
	return rows, best, nil
}

func alternatives(res *Result, no *NoPlanError) []Alternative {
	if res != nil {
		return res.Named
	}
	if no != nil {
		return no.Named
	}
	return nil
}

func programOf(s *model.Spec) (*memory.Program, error) {
	g, err := s.Build()
	if err != nil {
		return nil, err
	}
	return memory.Compile(g), nil
}

// MaxBatch is the largest micro-batch for which some plan of the class fits; a *NoPlanError says that not even one
// sequence does.
func MaxBatch(ctx context.Context, s *model.Spec, req Request) (int, error) {
	return largestThatFits(ctx, req, func(n int) *model.Spec {
		c := *s
		c.B = n
		return &c
	})
}

// MaxSequence is the longest sequence, a multiple of step tokens, for which some plan fits; a *NoPlanError as in MaxBatch.
func MaxSequence(ctx context.Context, s *model.Spec, req Request, step int) (int, error) {
	if s.Image != nil {
		return 0, fmt.Errorf("the sequence of a vision model is its patches: it cannot be longer")
	}
	n, err := largestThatFits(ctx, req, func(n int) *model.Spec {
		c := *s
		c.S = n * step
		if c.DecoderS > 0 {
			c.DecoderS = n * step
		}
		c.MaxS = max(c.MaxS, c.S)
		return &c
	})
	return n * step, err
}

// MostTried is where the search for the largest size ends, in steps.
const MostTried = 1 << 24

// largestThatFits doubles n until nothing fits, then bisects. A step that is too large to be estimated does not fit.
func largestThatFits(ctx context.Context, req Request, at func(n int) *model.Spec) (int, error) {
	try := func(n int) error {
		spec := at(n)
		if n > 1 && spec.TooLarge() {
			return &NoPlanError{}
		}
		p, err := programOf(spec)
		if err != nil {
			return err
		}
		_, err = Optimize(ctx, p, req)
		return err
	}
	var no *NoPlanError
	lo, hi := 0, 1
	for {
		err := try(hi)
		if errors.As(err, &no) && lo > 0 {
			break
		}
		if err != nil {
			return 0, err
		}
		lo = hi
		if hi *= 2; hi > MostTried {
			return lo, nil
		}
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		err := try(mid)
		switch {
		case errors.As(err, &no):
			hi = mid
		case err != nil:
			return 0, err
		default:
			lo = mid
		}
	}
	return lo, nil
}
