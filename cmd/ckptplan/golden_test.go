package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// goldens are command lines whose whole output is in testdata/golden: NAME.txt holds exit code, stdout and stderr, NAME.json
// stdout with --format json. Inputs are in testdata/golden/input, and plan.yaml is a plan file that the case "optimize-flat" writes.
var goldens = []struct{ name, line string }{
	{"estimate-default", "estimate gpt.yaml"},
	{"estimate-strategies", "estimate gpt.yaml --strategy none,selective,selective-attn,selective-mlp,every-2,first-3,last-3,segments-4,sqrt,nested-2,offload,offload-inputs,full"},
	{"estimate-gpu", "estimate llama.yaml --gpu a100-80gb --strategy none,full --batch 8 --seq 1024"},
	{"estimate-tight", "estimate llama.yaml --budget 480MB --reserve 0 --strategy none"},
	{"estimate-oom", "estimate llama.yaml --budget 1GB --batch 16 --strategy none,full"},
	{"estimate-explain", "estimate llama.yaml --strategy full --gpu rtx-4090 --explain --grad-accum 2"},
	{"estimate-amp", "estimate gpt.yaml --precision amp-fp16 --attention eager --explain"},
	{"estimate-lora", "estimate llama.yaml --lora r=8,alpha=16,targets=q_proj+v_proj --budget 1GB --reserve 0"},
	{"estimate-moe", "estimate moe.yaml --optimizer sgd --keep-logits=false"},
	{"estimate-t5", "estimate t5.yaml --strategy all"},
	{"estimate-hf-config", "estimate config.json --batch 2 --seq 64 --loss-chunks 2"},
	{"estimate-plan-file", "estimate --strategy plan.yaml"},
	{"optimize-flat", "optimize gpt.yaml --budget 100MB --reserve 0 --class flat --gpu a100-80gb"},
	{"optimize-nested", "optimize gpt.yaml --budget 85.7MB --reserve 0 --class nested"},
	{"optimize-auto", "optimize gpt.yaml --gpu v100-16gb --budget 890MB"},
	{"optimize-throughput", "optimize gpt.yaml --budget 150MB --reserve 0 --objective throughput --global-batch 12"},
	{"optimize-memory", "optimize gpt.yaml --objective memory --class flat"},
	{"largest-batch", "largest gpt.yaml --budget 100MB --reserve 0"},
	{"largest-seq", "largest gpt.yaml --of seq --budget 200MB --reserve 0 --batch 2"},
	{"frontier", "frontier gpt.yaml"},
	{"frontier-budget", "frontier gpt.yaml --budget 100MB --reserve 0 --allow drop-logits"},
	{"optimize-target", "optimize gpt.yaml --budget 90MB --reserve 0 --target megatron"},
	{"optimize-offload", "optimize gpt.yaml --budget 90MB --reserve 0 --offload --host-memory 20MB"},
	{"optimize-nothing-recomputed", "optimize moe.yaml --budget 1GB --reserve 0 --class flat"},
	{"optimize-allow", "optimize gpt.yaml --budget 60MB --reserve 0 --allow drop-logits,chunked-loss"},
	{"optimize-t5", "optimize t5.yaml --budget 12MB --reserve 0"},
	{"optimize-tight", "optimize gpt.yaml --budget 700MB --batch 4"},
	{"optimize-does-not-fit", "optimize gpt.yaml --budget 50MB --reserve 0"},
	{"optimize-target-does-not-fit", "optimize gpt.yaml --budget 85MB --reserve 0 --target torchtune"},
	{"show", "show plan.yaml"},
	{"show-check", "show plan.yaml --check"},
	{"verify", "verify tiny.yaml --device cpu --engine host --strategy full --steps 1"},
	{"models", "models"},
	{"gpus", "gpus"},
}

// refusals are command lines that print one error; all are in testdata/golden/errors.txt.
var refusals = []string{
	"estimate gpt9",
	"estimate none.yaml",
	"estimate gpt.yaml --strategy every2",
	"estimate gpt.yaml --strategy every-7",
	"estimate gpt.yaml --gpu a100",
	"estimate gpt.yaml --budget 24G",
	"estimate gpt.yaml --seq 2048",
	"estimate gpt.yaml --sequence 64",
	"estimate t5.yaml --strategy plan.yaml",
	"estimate gpt.yaml --lora r=8,targets=q_proj",
	"optimise",
	"optimize gpt.yaml",
	"optimize gpt.yaml --budget 1GB --class deep",
	"optimize gpt.yaml --budget 1GB --objective speed",
	"optimize gpt.yaml --budget 1GB --target trl",
	"optimize gpt.yaml --budget 1GB --plot out.svg",
	"optimize gpt.yaml --budget 1GB --global-batch 8",
	"optimize gpt.yaml --frontier --target megatron",
	"optimize gpt.yaml --frontier --plot out.pdf",
	"optimize gpt.yaml --budget 1GB --objective max-batch --batch 2",
	"optimize t5.yaml --budget 1GB --class nested",
	"show gpt.yaml",
	"verify gpt.yaml",
	"verify gpt.yaml --device tpu",
}

// TestGolden compares whole outputs, so that what moves between packages changes no byte. Each is read by a person
// before it is committed: make golden rewrites them.
func TestGolden(t *testing.T) {
	was := release
	release = "test"
	defer func() { release = was }()
	dir, err := filepath.Abs(filepath.Join("testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	inputs := t.TempDir()
	if err := os.CopyFS(inputs, os.DirFS(filepath.Join(dir, "input"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(inputs)
	if code, _, stderr := ckptplan(append(strings.Fields(lineOf("optimize-flat")), "-o", "plan.yaml")...); code != exitOK {
		t.Fatalf("no plan: %s", stderr)
	}
	for _, g := range goldens {
		args := strings.Fields(g.line)
		code, stdout, stderr := ckptplan(args...)
		golden(t, filepath.Join(dir, g.name+".txt"), fmt.Sprintf("$ ckptplan %s\nexit code %d\n\n%s", g.line, code, unsteady.Replace(stdout))+onStderr(stderr))
		other, stdout, again := ckptplan(append(args, "--format", "json")...)
		golden(t, filepath.Join(dir, g.name+".json"), unsteady.Replace(stdout))
		if other != code || again != stderr {
			t.Errorf("%s: as JSON exit code %d and %q, as a table %d and %q", g.name, other, again, code, stderr)
		}
	}
	var b strings.Builder
	for _, line := range refusals {
		code, stdout, stderr := ckptplan(strings.Fields(line)...)
		fmt.Fprintf(&b, "$ ckptplan %s\nexit code %d\n%s%s\n", line, code, stdout, stderr)
	}
	golden(t, filepath.Join(dir, "errors.txt"), b.String())
}

// TestMovedSpellings: what optimize did before there were commands for it prints what they print, and says which.
func TestMovedSpellings(t *testing.T) {
	t.Chdir(filepath.Join("testdata", "golden", "input"))
	for _, c := range []struct{ was, is string }{
		{"optimize gpt.yaml --frontier --class flat --budget 100MB --reserve 0", "frontier gpt.yaml --budget 100MB --reserve 0"},
		{"optimize gpt.yaml --objective max_batch --class flat --budget 100MB --reserve 0", "largest --of batch gpt.yaml --class flat --budget 100MB --reserve 0"},
		{"optimize t5.yaml --objective max-seq --budget 12MB --reserve 0", "largest --of seq t5.yaml --budget 12MB --reserve 0"},
		{"optimize gpt.yaml --objective max-batch --budget 10MB", "largest --of batch gpt.yaml --budget 10MB"},
	} {
		code, stdout, stderr := ckptplan(strings.Fields(c.was)...)
		want, now, errors := ckptplan(strings.Fields(c.is)...)
		command, _, _ := strings.Cut(c.is, " gpt.yaml")
		command, _, _ = strings.Cut(command, " t5.yaml")
		if code != want || stdout != now || stderr != "ckptplan: note: this is now ckptplan "+command+"\n"+errors {
			t.Errorf("%s: exit code %d, stderr %q\n%s", c.was, code, stderr, cmp.Diff(now, stdout))
		}
	}
}

// TestHelpHasSections: every flag of every command is in its help once, hidden ones are not.
func TestHelpHasSections(t *testing.T) {
	root := newRootCommand(&globals{})
	for _, c := range root.Commands() {
		text := c.UsageString()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			want := 1
			if f.Hidden {
				want = 0
			}
			if got := len(regexp.MustCompile(`(?m)^ +(-\w, )?--`+f.Name+` `).FindAllString(text, -1)); got != want {
				t.Errorf("%s --%s stands %d times in its help", c.Name(), f.Name, got)
			}
		})
	}
}

func lineOf(name string) string {
	for _, g := range goldens {
		if g.name == name {
			return g.line
		}
	}
	return ""
}

func onStderr(text string) string {
	if text == "" {
		return ""
	}
	return "\n--- stderr\n" + text
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", filepath.Base(file), diff)
	}
}

// unsteady hides what depends on the machine: its devices, the Go release, measured times, and the last digits of a loss.
var unsteady = scrubber{
	{`(?s)devices of this machine\n.*`, "devices of this machine\n…\n"},
	{`(?s)"devices": \[.*?\]`, `"devices": […]`},
	{`arch [a-z0-9]+, go go[^,]*,`, `arch …, go …,`},
	{`(?m)("arch": )"[^"]*"(,\s+"go": )"[^"]*"`, `$1"…"$2"…"`},
	{`(?s)(time \(of one step\)\n).*?(\n\n|$)`, "$1…$2"},
	{`("step_ns": )\d+,\s+"steps"[^}]*`, `$1…`},
	{`(loss": )[0-9.]+`, `$1…`},
}

// scrubber is a list of patterns and what stands in their places.
type scrubber [][2]string

func (s scrubber) Replace(text string) string {
	for _, r := range s {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return text
}
