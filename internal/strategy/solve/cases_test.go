package solve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// solverCase is one entry of testdata/solver-cases.json: inputs and answers that other programs computed (full
// enumeration, HiGHS, exhaustive search, the dynamic programs of peers), grouped by kind.
type solverCase struct {
	ID       string          `json:"id"`
	Kind     string          `json:"kind"`
	Inputs   json.RawMessage `json:"inputs"`
	Expected json.RawMessage `json:"expected"`
}

// casesOf runs a subtest for every case of a kind, with inputs and expected values decoded into in and want.
func casesOf[I, E any](t *testing.T, kind string, check func(t *testing.T, in I, want E)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "solver-cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []solverCase `json:"cases"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range file.Cases {
		if c.Kind != kind {
			continue
		}
		found = true
		t.Run(c.ID, func(t *testing.T) {
			var in I
			var want E
			if err := json.Unmarshal(c.Inputs, &in); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(c.Expected, &want); err != nil {
				t.Fatal(err)
			}
			check(t, in, want)
		})
	}
	if !found {
		t.Fatalf("no case of kind %s", kind)
	}
}
