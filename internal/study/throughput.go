package study

import (
	"context"
	"errors"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// mostTried is the largest micro batch of a search for throughput.
const mostTried = 4096

// Batch is one micro batch of a search for throughput, with its fastest plan.
type Batch struct {
	Batch     int `json:"batch"`
	GradAccum int `json:"grad_accum"`
	// PeakBytes and TokensPerSecond are absent if no plan fits.
	PeakBytes       unit.Bytes `json:"peak_tensor_bytes,omitempty"`
	TokensPerSecond float64    `json:"tokens_per_second,omitempty"`
	// IdealPerSecond is without recompute, fitting or not.
	IdealPerSecond float64 `json:"ideal_tokens_per_second"`
	// Words are the plan.
	Words string `json:"-"`
}

// Throughput finds the micro batch whose fastest plan trains the most tokens a second. With a global batch, gradients are
// accumulated to it and only its divisors are tried; otherwise (0) powers of two, up to the first for which no plan fits
// or that is too large to estimate.
func (s *Study) Throughput(ctx context.Context, global int) (*Optimization, error) {
	return s.bestPlan(func(h *Study) (*Optimization, error) { return h.throughput(ctx, global) })
}

func (s *Study) throughput(ctx context.Context, global int) (*Optimization, error) {
	var rows []Batch
	var found *strategy.Result // of the best row
	var at, first *Study
	var most float64
	for b := 1; b <= mostTried; b++ {
		if global > 0 && (b > global || global%b != 0) || global == 0 && b&(b-1) != 0 {
			continue
		}
		accum := max(1, global/b)
		v, err := s.Vary(model.Overrides{Batch: &b, GradAccum: &accum})
		if err != nil && first != nil {
			break // too large to be estimated
		}
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = v
		}
		res, err := v.search(ctx)
		var none *strategy.NoPlanError
		if err != nil && !errors.As(err, &none) {
			return nil, err
		}
		row := Batch{Batch: b, GradAccum: accum}
		var named []strategy.Alternative
		if res != nil {
			named = res.Named
			row.PeakBytes, row.TokensPerSecond = unit.Bytes(res.Timeline.Peak.Bytes), v.rate(res.Timeline)
			row.Words = PlanWords(res.Plan, v.layers())
		} else {
			named = none.Named
		}
		for _, a := range named {
			if a.Name == "none" {
				row.IdealPerSecond = v.rate(a.Timeline)
			}
		}
		rows = append(rows, row)
		if res == nil {
			break
		}
		if found == nil || row.TokensPerSecond > most {
			found, at, most = res, v, row.TokensPerSecond
		}
	}
	if found == nil { // not even the smallest fits: say which budget would
		return first.optimize(ctx)
	}
	o, err := at.certified(ctx, found)
	if err != nil {
		return nil, err
	}
	o.Objective, o.Batches = Throughput, rows
	if last := rows[len(rows)-1]; last.PeakBytes > 0 && last.Batch != global {
		o.Warnings = append(o.Warnings, searchEnds)
	}
	return o, nil
}

// rate is the number of tokens a second of a step.
func (s *Study) rate(tl *memory.Timeline) float64 {
	return float64(s.Tokens()) * 1e9 / float64(tl.Times.Step())
}
