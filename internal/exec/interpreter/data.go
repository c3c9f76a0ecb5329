package interpreter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"ckptplan/internal/exec"
	"ckptplan/internal/exec/random"
	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// stream is where a weight's or an input's values come from: the seed and its name, independent of the rest of the graph.
// Dropout draws from stream 0.
func (e *engine) stream(name string) random.Stream {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return random.Stream{Key: e.seed, Stream: h.Sum64()}
}

// initialise allocates what lives outside the step and fills it from the seed: weights, buffers, inputs.
func (e *engine) initialise() {
	for i := range e.g.Storages {
		s := &e.g.Storages[i]
		if s.Born != graph.None {
			continue
		}
		e.goOn()
		b := e.alloc(s.Name, e.types[i], s.Bytes/e.types[i].Size())
		e.static[i] = b
		r := e.stream(s.Name)
		values := make([]float32, b.count)
		ints := make([]int64, b.count)
		fill := e.g.Step.Fills[graph.StorageID(i)]
		switch {
		case s.Role == graph.Parameter:
			e.initWeight(graph.StorageID(i), values, r)
		case fill.Base != 0:
			for k := range values {
				values[k] = float32(math.Pow(fill.Base, -float64(k)/float64(len(values))))
			}
		case fill.Constant != 0:
			for k := range values {
				values[k] = float32(fill.Constant)
			}
		case gpu.Real(b.dtype):
			for k, x := range r.Normals(len(values)) {
				values[k] = float32(x)
			}
		case fill.Count:
			for k := range ints {
				ints[k] = int64(k)
			}
		case fill.Below > fill.From:
			for k := range ints {
				ints[k] = fill.From + int64(r.Word(int64(k)))%(fill.Below-fill.From)
			}
		}
		switch {
		case gpu.Real(b.dtype):
			b.set(values)
		case b.dtype == dtype.Bool:
			e.fill(b.whole(), 0)
		default:
			b.setInts(ints)
		}
	}
}

// initWeight draws a matrix with variance 1/columns, a vector of weights around 1 and a vector of biases around 0.
func (e *engine) initWeight(st graph.StorageID, values []float32, r random.Stream) {
	var shape graph.Dims
	for _, p := range e.g.Params {
		if x := &e.g.Tensors[p.Tensor]; x.Storage == st {
			shape = x.Shape
		}
	}
	mean, dev := 0.0, 0.1
	switch {
	case shape.N > 1:
		dev = 1 / math.Sqrt(float64(shape.At(-1)))
	case !strings.HasSuffix(e.g.Storages[st].Name, "bias"):
		mean = 1
	}
	for k, x := range r.Normals(len(values)) {
		values[k] = float32(mean + dev*x)
	}
}

// gradients are the parameters' gradients as numbers to compare.
func (e *engine) gradients() []exec.Gradient {
	var out []exec.Gradient
	for i, g := range e.grads {
		if g == nil {
			continue
		}
		v := g.glance()
		raw := make([]byte, 0, 4*len(v))
		norm, signed := 0.0, 0.0
		plus := random.Stream{Key: uint64(len(v))}.Mask(len(v), 0.5)
		for k, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			norm += float64(x) * float64(x)
			if plus[k] {
				signed += float64(x)
			} else {
				signed -= float64(x)
			}
		}
		hash := sha256.Sum256(raw)
		out = append(out, exec.Gradient{Name: e.g.Params[i].Name, SHA256: hex.EncodeToString(hash[:]), Norm: math.Sqrt(norm), SignedSum: signed})
	}
	slices.SortFunc(out, func(a, b exec.Gradient) int { return strings.Compare(a.Name, b.Name) })
	return out
}
