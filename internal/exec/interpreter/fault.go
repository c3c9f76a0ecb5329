package interpreter

import (
	"math"

	"ckptplan/internal/exec"
	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// Fault is one of the classic mistakes of checkpointing.
type Fault uint8

// The mistakes that the host engine can make. They leave the loss unchanged: only the recompute, and so the
// gradients, are wrong.
const (
	NoFault          Fault = iota
	FaultRandomState       // the generator is not restored for a recompute
	FaultInPlace           // the last op that reads a region's input changes it in place
	FaultPrecision         // the recompute runs in bf16 where forward ran in fp32, or the other way round
)

// record is what a checkpoint remembers of its forward to see whether its recompute is the same.
type record struct {
	offset   uint64 // the generator's counter
	versions map[graph.StorageID]int
	inputs   map[graph.StorageID]fingerprint
	ops      map[graph.OpID]opRecord
	told     bool
}

type opRecord struct {
	offset  uint64
	outputs []fingerprint
}

// fingerprint is a hash of a tensor's values, and of its values rounded to bf16.
type fingerprint struct{ exact, rounded uint64 }

func (t tensor) fingerprint() fingerprint {
	f := fingerprint{1469598103934665603, 1469598103934665603}
	const prime = 1099511628211 // FNV-1a over words
	values := t.glance()
	if t.DType != dtype.F32 && t.DType != dtype.F16 { // bfloat16 is rounded already; integers and booleans are not rounded
		for _, v := range values {
			f.exact = (f.exact ^ uint64(math.Float32bits(v))) * prime
		}
		f.rounded = f.exact
		return f
	}
	for _, v := range values {
		f.exact = (f.exact ^ uint64(math.Float32bits(v))) * prime
		f.rounded = (f.rounded ^ uint64(math.Float32bits(gpu.RoundBF16(v)))) * prime
	}
	return f
}

// capture remembers the inputs.
func (r *record) capture(p *checkpoint) {
	r.versions, r.inputs = map[graph.StorageID]int{}, map[graph.StorageID]fingerprint{}
	for st, b := range p.inputs {
		r.versions[st], r.inputs[st] = b.version, b.whole().fingerprint()
	}
}

// compareInputs looks for an input that has changed.
func (r *record) compareInputs(p *checkpoint) {
	for _, st := range p.region.Inputs {
		if b := p.inputs[st]; b.version != r.versions[st] || b.whole().fingerprint() != r.inputs[st] {
			p.differs("input")
			return
		}
	}
}

// differs keeps the first difference; later ones may follow from it.
func (p *checkpoint) differs(what string) {
	if !p.record.told {
		p.record.told = true
		p.engine.seen = append(p.engine.seen, exec.Observation{Region: p.name(), Differs: what})
	}
}

// before and after are called around every op of a region, in forward and in recompute.
func (p *checkpoint) before(f *frame, i graph.OpID) {
	if f.point == nil {
		if p.record.ops == nil {
			p.record.ops = map[graph.OpID]opRecord{}
		}
		p.record.ops[i] = opRecord{offset: p.engine.offset}
		return
	}
	if draws(p.engine.g, &p.engine.g.Ops[i]) > 0 && p.record.ops[i].offset != p.engine.offset {
		f.point.differs("random state")
	}
}

func (p *checkpoint) after(f *frame, i graph.OpID) {
	e := p.engine
	op := &e.g.Ops[i]
	if f.point == nil && p.region.Cached[i] {
		p.keep(f, i)
	}
	if op.Row().Work == graph.Free {
		return
	}
	rec := p.record.ops[i]
	for k, t := range e.g.Outputs(op) {
		now := f.tensor(t).fingerprint()
		if f.point == nil {
			rec.outputs = append(rec.outputs, now)
			continue
		}
		if was := rec.outputs[k]; was != now {
			if was.rounded == now.rounded {
				f.point.differs("precision")
			} else {
				f.point.differs("values")
			}
		}
	}
	if f.point == nil {
		p.record.ops[i] = rec
		p.spoil(f, i)
	}
}

// spoil is FaultInPlace: op i, the last of all to read an input of its region, adds 1 to it.
func (p *checkpoint) spoil(f *frame, i graph.OpID) {
	e := p.engine
	if e.fault != FaultInPlace {
		return
	}
	for _, st := range p.region.Inputs {
		if e.last[st] != i || e.g.Storages[st].Born == graph.None || p.region.Cached[i] {
			continue
		}
		b := f.buffer(st)
		if !gpu.Real(b.dtype) {
			continue
		}
		x := b.whole().at()
		e.launch(gpu.AddScalar, &gpu.Args{In: []gpu.Tensor{x}, Out: []gpu.Tensor{x}, Scalar: 1})
		b.version++
	}
}

// storeType is the type that a new storage has: the graph's, or another under FaultPrecision.
func (e *engine) storeType(dt dtype.DType) dtype.DType {
	if e.fault != FaultPrecision || e.again == 0 || !gpu.Real(dt) {
		return dt
	}
	if dt == dtype.F32 {
		return dtype.BF16
	}
	return dtype.F32
}
