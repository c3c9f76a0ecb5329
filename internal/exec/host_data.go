package exec

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"ckptplan/internal/model"
)

// stream is where a weight's or an input's values come from: the seed and its name, whatever else the graph has. Dropout
// draws from stream 0.
func (e *hostEngine) stream(name string) hostRandom {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return hostRandom{key: e.seed, stream: h.Sum64()}
}

// generator is where dropout draws from now.
func (e *hostEngine) generator() hostRandom { return hostRandom{key: e.seed, offset: e.offset} }

// initialise allocates what lives outside the step and fills it from the seed: weights, buffers, inputs.
func (e *hostEngine) initialise() {
	for i := range e.g.Storages {
		s := &e.g.Storages[i]
		if s.Born != model.None {
			continue
		}
		e.goOn()
		b := e.alloc(s.Name, e.types[i], s.Bytes/e.types[i].Size())
		e.static[i] = b
		r := e.stream(s.Name)
		fill := e.g.Step.Fills[model.StorageID(i)]
		switch {
		case s.Role == model.Parameter:
			e.initWeight(model.StorageID(i), b, r)
		case fill.Base != 0:
			for k := range b.reals {
				b.reals[k] = roundTo(e.types[i], float32(math.Pow(fill.Base, -float64(k)/float64(len(b.reals)))))
			}
		case fill.Constant != 0:
			for k := range b.reals {
				b.reals[k] = roundTo(e.types[i], float32(fill.Constant))
			}
		case b.reals != nil:
			for k, x := range r.normals(len(b.reals)) {
				b.reals[k] = roundTo(e.types[i], float32(x))
			}
		case fill.Count:
			for k := range b.ints {
				b.ints[k] = int64(k)
			}
		default:
			for k := range b.ints {
				b.ints[k] = fill.From + int64(r.word(int64(k)))%(fill.Below-fill.From)
			}
		}
	}
}

// initWeight draws a matrix with variance 1/columns, a vector of weights around 1 and a vector of biases around 0.
func (e *hostEngine) initWeight(st model.StorageID, b *hostBuffer, r hostRandom) {
	var shape model.Dims
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
	for k, x := range r.normals(len(b.reals)) {
		b.reals[k] = roundTo(e.types[st], float32(mean+dev*x))
	}
}

// gradients are the parameters' gradients as numbers to compare.
func (e *hostEngine) gradients() []Gradient {
	var out []Gradient
	for i, g := range e.grads {
		if g == nil {
			continue
		}
		v := g.reals()
		raw := make([]byte, 0, 4*len(v))
		norm, signed := 0.0, 0.0
		plus := hostRandom{key: uint64(len(v))}.mask(len(v), 0.5)
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
		out = append(out, Gradient{Name: e.g.Params[i].Name, SHA256: hex.EncodeToString(hash[:]), Norm: math.Sqrt(norm), SignedSum: signed})
	}
	slices.SortFunc(out, func(a, b Gradient) int { return strings.Compare(a.Name, b.Name) })
	return out
}
