package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestHintsAreWhatTheirFlagsGive runs every hint as a user would: its flags give its peak.
func TestHintsAreWhatTheirFlagsGive(t *testing.T) {
	for _, args := range [][]string{
		{"gpt2", "--strategy", "none", "--budget", "4GB"},
		{"gpt2", "--strategy", "none", "--budget", "1GB"},
		{"gpt2", "--strategy", "selective-mlp", "--batch", "9"},
		{"gpt2", "--strategy", "full", "--optimizer", "adamw-loop", "--batch", "1", "--budget", "2GB"},
		{"llama-3.2-1b", "--strategy", "none", "--lora", "r=8", "--budget", "24GB"},
	} {
		_, stdout, _ := ckptplan(append([]string{"estimate", "--format", "json"}, args...)...)
		var e struct {
			Hints []struct {
				Flags string `json:"flags"`
				Peak  int64  `json:"peak_tensor_bytes"`
			} `json:"hints"`
		}
		if err := json.Unmarshal([]byte(stdout), &e); err != nil {
			t.Fatal(err)
		}
		if len(e.Hints) == 0 {
			t.Errorf("%v: no hints", args)
		}
		for _, h := range e.Hints {
			changed := append([]string{}, args...)
			flags := strings.Fields(h.Flags)
			for i, f := range flags {
				if f == "--strategy" { // lists add up: replace it
					changed[2] = flags[i+1]
					flags = append(flags[:i], flags[i+2:]...)
					break
				}
			}
			c, _ := estimateJSON(t, append(changed, flags...)...)
			if got := *c.Estimates[0].Peak.TensorBytes; got != h.Peak {
				t.Errorf("%v with %s: peak %d, the hint says %d", args, h.Flags, got, h.Peak)
			}
		}
	}
}

// TestHintsOfASearchAreTakenByIt runs what optimize suggests: it takes the flags, and finds a plan where one was said to
// fit.
func TestHintsOfASearchAreTakenByIt(t *testing.T) {
	for _, args := range [][]string{
		{"gpt2", "--budget", "1GB"},
		{"gpt2", "--budget", "7.1GB"},
		{"gpt2", "--budget", "3GB", "--target", "torchtune"},
		{"gpt2", "--budget", "1GB", "--objective", "max-batch"},
		{"llama-3.2-1b", "--budget", "9GB", "--seq", "2048"},
	} {
		args = append([]string{"optimize", "--format", "json"}, args...)
		_, stdout, stderr := ckptplan(args...)
		var o struct {
			Hints []struct {
				Flags   string `json:"flags"`
				Verdict string `json:"verdict"`
			} `json:"hints"`
		}
		if err := json.Unmarshal([]byte(stdout), &o); err != nil {
			t.Fatal(err, stderr)
		}
		if len(o.Hints) == 0 {
			t.Errorf("%v: no hints", args)
		}
		for _, h := range o.Hints {
			code, _, stderr := ckptplan(append(args, strings.Fields(h.Flags)...)...)
			if code != exitOK && (h.Verdict != "oom" || code != exitDoesNotFit) {
				t.Errorf("%v with %s: exit code %d, %s; the hint says %s", args, h.Flags, code, stderr, h.Verdict)
			}
		}
	}
}
