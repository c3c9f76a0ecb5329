package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ckptplan/internal/groundtruth"
	"ckptplan/internal/thorough"
)

// verified is the JSON of verify that programs rely on. Pointers tell an absent key from a zero.
type verified struct {
	FormatVersion *int           `json:"format_version"`
	Engine        *string        `json:"engine"`
	Device        *string        `json:"device"`
	Environment   map[string]any `json:"environment"`
	Predicted     *contractEntry `json:"predicted"`
	Measured      struct {
		Strategy *string `json:"strategy"`
		Peak     struct {
			tensorBytes
			Phase *string `json:"phase"`
		} `json:"peak"`
		Phases         map[string]tensorBytes `json:"phases"`
		BeforeBackward tensorBytes            `json:"before_backward"`
	} `json:"measured"`
	Differences []struct {
		What      *string  `json:"what"`
		Predicted *int64   `json:"predicted_bytes"`
		Measured  *int64   `json:"measured_bytes"`
		Share     *float64 `json:"difference"`
		Within    *bool    `json:"within_tolerance"`
	} `json:"differences"`
	Verdict *string `json:"verdict"`
}

func verifyJSON(t *testing.T, args ...string) (verified, map[string]any) {
	t.Helper()
	code, stdout, stderr := ckptplan(append([]string{"verify", "--format", "json"}, args...)...)
	if code != exitOK && code != exitDiffers {
		t.Fatalf("%v: exit code %d, stderr %s", args, code, stderr)
	}
	var v verified
	var raw map[string]any
	for _, to := range []any{&v, &raw} {
		if err := json.Unmarshal([]byte(stdout), to); err != nil {
			t.Fatal(err)
		}
	}
	return v, raw
}

// TestVerifyContract: every key of the contract is there, and what is not measured is absent rather than 0.
func TestVerifyContract(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "small.yaml")
	doc := "arch: llama\nL: 2\nS: 16\nH: 32\nB: 1\nheads: 2\nffn: 64\nvocab: 100\ndtype: fp32\n"
	if err := os.WriteFile(spec, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
	v, raw := verifyJSON(t, spec, "--device", "cpu", "--engine", "host", "--strategy", "full")
	if m := missing(v); len(m) > 0 {
		t.Errorf("missing: %v", m)
	}
	if *v.FormatVersion != 1 || *v.Engine != "host" || *v.Device != "cpu" || *v.Verdict != "agrees" || *v.Measured.Strategy != "full" {
		t.Errorf("%+v", v)
	}
	if g, ok := raw["gradients"].(map[string]any); !ok || g["equal"] != true {
		t.Errorf("gradients %v", raw["gradients"])
	}
	measured := raw["measured"].(map[string]any)
	for _, key := range []string{"allocated_bytes", "reserved_bytes", "device_bytes"} {
		if peak := measured["peak"].(map[string]any); peak[key] != nil {
			t.Errorf("%s is %v on a device that has no such count", key, peak[key])
		}
	}
	if measured["static"] != nil {
		t.Errorf("static was not measured, but is %v", measured["static"])
	}
	if time := measured["time"].(map[string]any); time["step_ns"].(float64) <= 0 || time["recompute_overhead"] == nil {
		t.Errorf("time %v", time)
	}
}

// commandLine is a measured case as arguments. Its config.json is written to a temporary folder.
func commandLine(t *testing.T, c *groundtruth.Case) []string {
	t.Helper()
	config, err := c.ConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		t.Fatal(err)
	}
	out := []string{
		file, "--batch", strconv.Itoa(c.Batch), "--precision", c.Precision, "--attention", c.Attention,
		"--strategy", c.Strategy, "--optimizer", c.Optimizer, "--keep-logits=" + strconv.FormatBool(c.KeepsLogits()),
		"--grad-accum", strconv.Itoa(max(1, c.GradAccum)),
	}
	if c.ModelType != "vit" { // its length is the image's
		out = append(out, "--seq", strconv.Itoa(c.Seq))
	}
	if l := c.LoRA; l != nil {
		parts := []string{"r=" + strconv.Itoa(l.Rank), "targets=" + strings.Join(l.Targets, "+"), "dropout=" + strconv.FormatFloat(l.Dropout, 'f', -1, 64)}
		if l.Alpha > 0 {
			parts = append(parts, "alpha="+strconv.FormatFloat(l.Alpha, 'f', -1, 64))
		}
		if l.DType != "" {
			parts = append(parts, "dtype="+l.DType)
		}
		out = append(out, "--lora", strings.Join(parts, ","))
	}
	return out
}

// verifiedOnMeta are cases of many classes, each with another strategy, precision, attention or optimizer.
var verifiedOnMeta = []string{
	"gpt2-b2-s1024-bf16-sdpa-full-adamw",
	"gpt2-b8-s512-bf16-sdpa-every-2-adamw",
	"gpt2-b4-s2048-bf16-sdpa-selective-mlp-adamw",
	"gpt2-b4-s1024-fp32-sdpa-nested-6-sgd",
	"gpt2-medium-b3-s777-bf16-sdpa-first-5-adamw-drop-logits",
	"tinyllama-1.1b-b4-s2048-bf16-sdpa-full-adamw-lora64",
	"tinyllama-1.1b-b4-s1024-bf16-eager-selective-adamw",
	"tinyllama-1.1b-b4-s1024-amp-bf16-sdpa-sqrt-adamw",
	"llama-3-8b-b1-s2048-bf16-sdpa-none-none",
	"qwen2.5-1.5b-b4-s512-amp-bf16-sdpa-full-adamw",
	"qwen3-0.6b-b1-s2048-fp32-eager-none-adamw",
	"mistral-7b-b1-s1024-bf16-eager-none-sgd",
	"pythia-410m-b8-s512-bf16-sdpa-every-2-adamw",
	"bert-base-b4-s512-amp-bf16-sdpa-selective-attn-adamw",
	"vit-base-b32-s197-bf16-sdpa-segments-3-adamw",
	"mixtral-small-b2-s1024-bf16-sdpa-full-adamw",
	"roberta-small-b8-s256-fp16-sdpa-every-2-adamw-drop-logits",
	"phi3-small-b2-s512-amp-fp16-eager-full-sgd",
	"gemma2-small-b2-s1024-bf16-sdpa-full-adamw",
	"starcoder2-small-b2-s512-bf16-sdpa-none-adamw-lora8-bf16",
	"falcon-7b-style-b4-s512-bf16-sdpa-segments-2-adamw",
	"bloom-560m-style-b4-s256-amp-bf16-eager-none-adamw",
	"gpt2-6-b8-s1024-bf16-sdpa-offload-adamw_fused-accum2",
	"llama-6-gqa-b4-s256-amp-bf16-sdpa-offload-inputs-adamw",
}

// TestVerifyGroundTruth runs PyTorch on meta through the command line, as a user would with a config.json, and finds
// the bytes that were measured with other code; the prediction is within 0.5 % of them.
func TestVerifyGroundTruth(t *testing.T) {
	python := os.Getenv("TORCH_PYTHON")
	if python == "" {
		t.Skip("TORCH_PYTHON names no Python with PyTorch (tools/torch-env prints one)")
	}
	thorough.Skip(t)
	cases := groundtruth.ByID(t)
	turns := make(chan struct{}, 2)
	for _, id := range verifiedOnMeta {
		t.Run(id, func(t *testing.T) {
			c := cases[id]
			if c == nil {
				t.Fatal("no such case")
			}
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			v, _ := verifyJSON(t, append(commandLine(t, c), "--device", "meta", "--python", python, "--tolerance", "0.5%")...)
			check := func(what string, got *int64, want int64) {
				t.Helper()
				if got == nil || math.Abs(float64(*got-want)) > 0.0001*float64(want) {
					t.Errorf("%s: measured %v, known %d", what, got, want)
				}
			}
			for _, phase := range []string{"forward", "backward", "optimizer"} {
				if want := c.Result.Peaks["2."+phase].Bytes; want != 0 {
					check(phase, v.Measured.Phases[phase].TensorBytes, want)
				}
			}
			check("before backward", v.Measured.BeforeBackward.TensorBytes, c.Result.BeforeBackward2)
			if *v.Verdict != "agrees" {
				t.Errorf("the verdict is %s", *v.Verdict)
			}
		})
	}
}
