package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	keys := []string{"L", "S", "H", "B", "heads", "kv_heads", "vocab", "adamw", "adamw-fused", "sgd"}
	for word, want := range map[string]string{
		"ad": "", "adam": "adamw", "AdamW": "adamw", "adamw_fused": "adamw-fused", "sdg": "sgd", "lion": "", "": "",
		"h": "H", "HH": "H", "Hh": "H", "hd": "H", "L1": "", "2B": "", "HS": "", "xy": "", "x": "", "HHH": "",
		"head": "heads", "KV-HEADS": "kv_heads", "vcoab": "vocab",
		"\u00e9": "", strings.Repeat("heads", 100): "",
	} {
		if got := Name(word, keys); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := Name("heads", nil); got != "" {
		t.Errorf("without candidates: %q", got)
	}
}

// Known distances: Levenshtein's kitten and sitting, and one swap.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"kitten", "sitting", 3},
		{"saturday", "sunday", 3},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"sdg", "sgd", 1},
		{"ca", "abc", 3}, // a swapped pair is not edited again
	} {
		if got := Edits(c.a, c.b); got != c.want {
			t.Errorf("%s to %s: %d edits, want %d", c.a, c.b, got, c.want)
		}
	}
}
