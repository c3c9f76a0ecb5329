package optimizer

import "testing"

func TestLookup(t *testing.T) {
	for _, name := range []string{"adamw", "adamw-loop", "adamw-fused", "sgd", "none"} {
		if r, err := Lookup(name); err != nil || r.Name != name {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for _, name := range []string{"", "lion", "AdamW", "adamw_fused"} {
		if r, err := Lookup(name); err == nil {
			t.Errorf("%q is %s", name, r.Name)
		}
	}
}

// What a row points to is there, and an update has an arithmetic.
func TestRows(t *testing.T) {
	for _, r := range Rows {
		if (r.Rule != "") != (r.Passes > 0) {
			t.Errorf("%s: rule %q, %d passes", r.Name, r.Rule, r.Passes)
		}
		if r.Leaner == "" {
			continue
		}
		if l, err := Lookup(r.Leaner); err != nil || l.Rule != r.Rule || l.Words == "" {
			t.Errorf("%s is leaner than %s: %+v, %v", r.Leaner, r.Name, l, err)
		}
	}
}
