package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckptplan/internal/groundtruth"
)

// tensorBytes is an object of the contract that holds one amount.
type tensorBytes struct {
	TensorBytes *int64 `json:"tensor_bytes"`
}

// contract is the JSON of estimate that programs rely on. Pointers tell an absent key from a zero.
type contract struct {
	FormatVersion *int `json:"format_version"`
	Model         struct {
		Name                *string `json:"name"`
		Parameters          *int64  `json:"parameters"`
		TrainableParameters *int64  `json:"trainable_parameters"`
	} `json:"model"`
	Assumptions *[]string       `json:"assumptions"`
	Estimates   []contractEntry `json:"estimates"`
}

type contractEntry struct {
	Strategy *string `json:"strategy"`
	Peak     struct {
		tensorBytes
		Phase *string `json:"phase"`
		Block *string `json:"block"`
		Op    *string `json:"op"`
	} `json:"peak"`
	Phases struct {
		Forward   tensorBytes `json:"forward"`
		Backward  tensorBytes `json:"backward"`
		Optimizer tensorBytes `json:"optimizer"`
	} `json:"phases"`
	BeforeBackward tensorBytes `json:"before_backward"`
	Static         struct {
		Parameter *int64 `json:"parameter_bytes"`
		Gradient  *int64 `json:"gradient_bytes"`
		Optimizer *int64 `json:"optimizer_bytes"`
	} `json:"static"`
	Breakdown []struct {
		Category *string `json:"category"`
		Bytes    *int64  `json:"bytes"`
	} `json:"breakdown"`
	Time struct {
		Step     *int64   `json:"step_ns"`
		Tokens   *float64 `json:"tokens_per_second"`
		Overhead *float64 `json:"recompute_overhead"`
	} `json:"time"`
}

func estimateJSON(t *testing.T, args ...string) (contract, map[string]any) {
	t.Helper()
	code, stdout, stderr := ckptplan(append([]string{"estimate", "--format", "json"}, args...)...)
	if (code != exitOK && code != exitDoesNotFit) || (code == exitOK && stderr != "") {
		t.Fatalf("%v: exit code %d, stderr %s", args, code, stderr)
	}
	var c contract
	var raw map[string]any
	for _, v := range []any{&c, &raw} {
		if err := json.Unmarshal([]byte(stdout), v); err != nil {
			t.Fatal(err)
		}
	}
	return c, raw
}

// missing lists the keys of the contract that are not there.
func missing(v any) []string {
	text, _ := json.Marshal(v)
	var tree any
	_ = json.Unmarshal(text, &tree)
	var out []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
			out = append(out, path)
		case map[string]any:
			for k, e := range v {
				walk(path+"."+k, e)
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
		}
	}
	walk("", tree)
	return out
}

func TestEstimateJSONHasTheContractsKeys(t *testing.T) {
	c, raw := estimateJSON(t, "gpt2", "--strategy", "none,full")
	if keys := missing(c); len(keys) > 0 {
		t.Errorf("absent: %s", strings.Join(keys, ", "))
	}
	if *c.FormatVersion != 1 {
		t.Errorf("format_version %d", *c.FormatVersion)
	}
	for _, e := range raw["estimates"].([]any) {
		entry := e.(map[string]any)
		if v, ok := entry["verdict"]; !ok || v != nil {
			t.Errorf("without a budget the verdict is %v, want null", v)
		}
		for _, key := range []string{"allocated_bytes", "reserved_bytes", "device_bytes"} {
			if v, ok := entry["peak"].(map[string]any)[key]; ok {
				t.Errorf("%s is %v, but the allocator is not modelled", key, v)
			}
		}
	}
	for _, e := range c.Estimates {
		var sum int64
		for _, term := range e.Breakdown {
			sum += *term.Bytes
		}
		if sum != *e.Peak.TensorBytes {
			t.Errorf("%s: the breakdown adds up to %d, the peak is %d", *e.Strategy, sum, *e.Peak.TensorBytes)
		}
	}
	if *c.Estimates[0].Time.Overhead != 0 {
		t.Errorf("none recomputes %g", *c.Estimates[0].Time.Overhead)
	}
}

func TestEstimateJSONVerdict(t *testing.T) {
	for _, c := range []struct{ budget, want string }{{"24GB", "fits"}, {"7.5GB", "tight"}, {"1GB", "oom"}} {
		_, raw := estimateJSON(t, "gpt2", "--strategy", "full", "--budget", c.budget)
		if got := raw["estimates"].([]any)[0].(map[string]any)["verdict"]; got != c.want {
			t.Errorf("%s: verdict %v, want %s", c.budget, got, c.want)
		}
	}
}

// TestEstimateJSONAgreesWithMeasurements goes the way of a user, from a config.json and flags to JSON.
func TestEstimateJSONAgreesWithMeasurements(t *testing.T) {
	cases := groundtruth.ByID(t)
	for _, id := range []string{
		"gpt2-b2-s1024-bf16-sdpa-none-adamw", "gpt2-b2-s1024-bf16-sdpa-full-adamw",
		"gpt2-b4-s512-amp-bf16-sdpa-none-adamw", "gpt2-b2-s1024-bf16-sdpa-none-adamw_fused",
	} {
		m, ok := cases[id]
		if !ok {
			t.Fatalf("%s is not measured", id)
		}
		t.Run(id, func(t *testing.T) {
			c, _ := estimateJSON(t, commandLine(t, m)...)
			e := c.Estimates[0]
			got := []int64{
				*e.Phases.Forward.TensorBytes, *e.BeforeBackward.TensorBytes, *e.Phases.Backward.TensorBytes, *e.Phases.Optimizer.TensorBytes,
				*c.Model.Parameters, *c.Model.TrainableParameters,
			}
			p := m.Result.Peaks
			want := []int64{
				p["2.forward"].Bytes, m.Result.BeforeBackward2, p["2.backward"].Bytes, p["2.optimizer"].Bytes,
				m.Result.Parameters, m.Result.Trainable,
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("forward, before backward, backward, optimizer, parameters, trained:\n%s", d)
			}
		})
	}
}

func TestOptimizeJSON(t *testing.T) {
	code, stdout, stderr := ckptplan("optimize", "gpt2", "--budget", "10GB", "--format", "json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	var found struct {
		FormatVersion int             `json:"format_version"`
		Model         map[string]any  `json:"model"`
		Assumptions   []string        `json:"assumptions"`
		Plan          map[string]any  `json:"plan"`
		Estimate      contractEntry   `json:"estimate"`
		Alternatives  []contractEntry `json:"alternatives"`
		Certificate   map[string]any  `json:"certificate"`
	}
	if err := json.Unmarshal([]byte(stdout), &found); err != nil {
		t.Fatal(err)
	}
	if keys := missing(found.Estimate); len(keys) > 0 {
		t.Errorf("estimate lacks %s", strings.Join(keys, ", "))
	}
	if keys := missing(found.Alternatives); len(keys) > 0 || len(found.Alternatives) == 0 {
		t.Errorf("alternatives lack %s", strings.Join(keys, ", "))
	}
	for _, key := range []string{"format_version", "strategy", "nodes", "spec", "model", "budget_bytes"} {
		if found.Plan[key] == nil {
			t.Errorf("the plan lacks %s", key)
		}
	}

	if found.Certificate["status"] == nil || !cmp.Equal(found.Certificate, found.Plan["certificate"]) {
		t.Errorf("certificate %v, in the plan file %v", found.Certificate, found.Plan["certificate"])
	}
	checkKeys(t, stdout, "target", "shape", "restriction_price", "smallest_budget_bytes", "reason", "batches", "largest")

	code, stdout, _ = ckptplan("optimize", "gpt2", "--budget", "2GB", "--format", "json")
	var none map[string]any
	if err := json.Unmarshal([]byte(stdout), &none); err != nil {
		t.Fatal(err)
	}
	plan, ok := none["plan"]
	smallest, _ := none["smallest_budget_bytes"].(float64)
	reason, _ := none["reason"].(string)
	if code != exitDoesNotFit || !ok || plan != nil || smallest <= 2e9 || reason == "" {
		t.Errorf("without a plan: exit code %d, plan %v, smallest budget %v, reason %q", code, plan, smallest, reason)
	}
}

// checkKeys reports keys of an object that should be absent.
func checkKeys(t *testing.T, object string, absent ...string) {
	t.Helper()
	var raw map[string]any
	if err := json.Unmarshal([]byte(object), &raw); err != nil {
		t.Fatal(err)
	}
	for _, key := range absent {
		if v, ok := raw[key]; ok {
			t.Errorf("%s is %v", key, v)
		}
	}
}

// TestOptimizeJSONForTarget: the price of a restriction is the share by which the step is longer, from the two
// entries' own times.
func TestOptimizeJSONForTarget(t *testing.T) {
	code, stdout, stderr := ckptplan("optimize", "gpt2", "--budget", "10GB", "--target", "hf_layers", "--format", "json")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %s", code, stderr)
	}
	var found struct {
		Target       string          `json:"target"`
		Shape        string          `json:"shape"`
		Price        *float64        `json:"restriction_price"`
		Estimate     contractEntry   `json:"estimate"`
		Alternatives []contractEntry `json:"alternatives"`
	}
	if err := json.Unmarshal([]byte(stdout), &found); err != nil {
		t.Fatal(err)
	}
	free := found.Alternatives[0]
	if found.Target != "hf-layers" || found.Shape == "" || found.Price == nil || *free.Strategy != "unrestricted" {
		t.Fatalf("target %q, shape %q, price %v, first alternative %q", found.Target, found.Shape, found.Price, *free.Strategy)
	}
	want := float64(*found.Estimate.Time.Step)/float64(*free.Time.Step) - 1
	if d := *found.Price - want; d < -1e-9 || d > 1e-9 { // rounding of float64
		t.Errorf("price %g, want %g", *found.Price, want)
	}
	checkKeys(t, stdout, "certificate", "solution")
}
