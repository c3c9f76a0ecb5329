package study

import (
	"fmt"
	"math"
)

// Compared are the strategies that are set side by side when none is named.
var Compared = []string{"none", "selective", "every-2", "sqrt", "full"}

// EveryStrategy is each named strategy, with K around a half and √L.
func EveryStrategy(layers int) []string {
	half := max(1, layers/2)
	root := max(1, int(math.Round(math.Sqrt(float64(layers)))))
	return []string{
		"none", "selective", "selective-attn", "selective-mlp", "every-2", fmt.Sprintf("first-%d", half), fmt.Sprintf("last-%d", half),
		"sqrt", fmt.Sprintf("nested-%d", root), "full", "offload-inputs", "offload",
	}
}
