package report

import (
	"context"

	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// Batch is one micro batch of a search for throughput, with its fastest plan.
type Batch struct {
	Batch     int `json:"batch"`
	GradAccum int `json:"grad_accum"`
	// PeakBytes and TokensPerSecond are absent if nothing fits.
	PeakBytes       unit.Bytes `json:"peak_tensor_bytes,omitempty"`
	TokensPerSecond float64    `json:"tokens_per_second,omitempty"`
	// IdealPerSecond is without recompute, fitting or not.
	IdealPerSecond float64 `json:"ideal_tokens_per_second"`

	words string // the plan
}

// throughput finds the micro batch whose fastest plan trains the most tokens a second.
func (s *Study) throughput(ctx context.Context, r strategy.Request, req OptimizeRequest) (*Optimization, error) {
	spec := *s.Spec
	rows, best, err := strategy.Throughput(ctx, &spec, r, req.GlobalBatch)
	if err != nil {
		return nil, err
	}
	if best < 0 { // not even the smallest fits: say what would do
		spec.B, spec.Train.GradAccum = rows[0].Batch, rows[0].Accum
	} else {
		spec.B, spec.Train.GradAccum = rows[best].Batch, rows[best].Accum
	}
	study, err := NewStudy(&spec, s.Sheet)
	if err != nil {
		return nil, err
	}
	if best < 0 {
		req.Objective = Fastest
		return study.Optimize(ctx, req)
	}
	o, _, err := study.found(ctx, req, r)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		b := Batch{Batch: row.Batch, GradAccum: row.Accum, IdealPerSecond: row.Ideal}
		if row.Result != nil {
			b.PeakBytes, b.TokensPerSecond = unit.Bytes(row.Result.Timeline.Peak.Bytes), row.TokensPerSecond
			b.words = planWords(row.Result.Plan, o.Model.Layers)
		}
		o.Batches = append(o.Batches, b)
	}
	if last := rows[len(rows)-1]; last.Result != nil && last.Batch != req.GlobalBatch {
		o.Warnings = append(o.Warnings, searchEnds)
	}
	return o, nil
}

// batches sets the micro batches side by side.
func (o *Optimization) batches() Table {
	t := Table{
		Title:   "micro batches",
		Columns: []Column{{Name: "batch"}, {Name: "accumulated"}, {Name: "peak"}, {Name: "tokens/s"}, {Name: "without recompute"}, {Name: "fastest plan"}},
	}
	for _, b := range o.Batches {
		r := Row{Count(b.Batch), Count(b.GradAccum), nil, nil, Rate(b.IdealPerSecond), "does not fit"}
		if b.TokensPerSecond > 0 {
			r[2], r[3], r[5] = b.PeakBytes, Rate(b.TokensPerSecond), b.words
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}
