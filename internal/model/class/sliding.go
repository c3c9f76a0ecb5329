package class

import (
	"strconv"

	"ckptplan/internal/document"
	"ckptplan/internal/model/spec"
)

// slidesBut gives every nth layer full attention; the others slide.
func slidesBut(n, layers int) []string {
	types := make([]string, max(layers, 0))
	for i := range types {
		types[i] = [...]string{"sliding_attention", "full_attention"}[oneIf((i+1)%n == 0)]
	}
	return types
}

// slideBut sets the types of a spec's layers where it has a window and no types: every nth attends to all tokens.
func slideBut(n int) func(*spec.Spec, func(string) bool) {
	return func(s *spec.Spec, given func(string) bool) {
		if !given("layer_types") && s.SlidingWindow > 0 && s.L <= spec.MaxLayers {
			s.LayerTypes = slidesBut(n, s.L)
		}
	}
}

// count reads a key of a config.json that counts from 1.
func (c *Config) count(name string, otherwise int) int {
	v := c.Get(name)
	if v == nil {
		return otherwise
	}
	n, err := strconv.Atoi(v.Value)
	if err != nil || n < 1 {
		c.At(v, "%s: %s, but it is a whole number of at least 1", name, document.Shown(v))
		return otherwise
	}
	return n
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}
