package main

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// example is a command line of a document and what it prints.
type example struct {
	line    int
	command string
	want    []string
}

// examples finds the lines that begin with "$ ckptplan " inside fenced blocks; what follows up to the next command or
// the end of the block is the output.
func examples(src []byte) []example {
	var out []example
	inside, open := false, false
	s := bufio.NewScanner(bytes.NewReader(src))
	for n := 1; s.Scan(); n++ {
		line := s.Text()
		switch {
		case strings.HasPrefix(line, "```"):
			inside, open = !inside, false
		case inside && strings.HasPrefix(line, "$ "):
			if open = strings.HasPrefix(line, "$ ckptplan "); open {
				out = append(out, example{line: n, command: strings.TrimPrefix(line, "$ ckptplan ")})
			}
		case open:
			out[len(out)-1].want = append(out[len(out)-1].want, line)
		}
	}
	return out
}

// elide cuts got to the lines that want shows: a line "..." stands for any lines, up to one that is the same as the
// next.
func elide(want, got []string, same func(want, got string) bool) []string {
	var out []string
	for i := 0; i < len(want); i++ {
		if want[i] != "..." {
			if len(got) == 0 {
				break
			}
			out, got = append(out, got[0]), got[1:]
			continue
		}
		out = append(out, "...")
		for len(got) > 0 && (i+1 == len(want) || !same(want[i+1], got[0])) {
			got = got[1:]
		}
	}
	return append(out, got...)
}

func equal(want, got string) bool { return want == got }

// alike tells lines that differ in numbers alone, as far as an update of a document goes.
func alike(want, got string) bool {
	return want != "" && strings.Fields(want)[0] == strings.Fields(got + " .")[0]
}

var update = flag.Bool("update", false, "write what is printed now into README.md and testdata/golden")

// TestDocuments runs the examples of README.md and of examples/README.md, each in their order in a copy of the folder that
// they speak of, and compares what they print.
func TestDocuments(t *testing.T) {
	for _, d := range []struct{ file, folder string }{{"README.md", ""}, {"examples/README.md", "examples"}} {
		t.Run(d.file, func(t *testing.T) { checkDocument(t, d.file, d.folder) })
	}
}

func checkDocument(t *testing.T, name, folder string) {
	file, err := filepath.Abs(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if folder != "" {
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(file))); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	lines := strings.Split(string(src), "\n")
	var updated []string
	done := 0 // lines of src that updated stands for
	for _, e := range examples(src) {
		_, stdout, stderr := ckptplan(strings.Fields(e.command)...)
		got := strings.Split(strings.TrimRight(stdout+stderr, "\n"), "\n")
		for len(e.want) > 0 && e.want[len(e.want)-1] == "" {
			e.want = e.want[:len(e.want)-1]
		}
		if *update {
			updated = append(append(updated, lines[done:e.line]...), elide(e.want, got, alike)...)
			done = e.line + len(e.want)
			continue
		}
		if d := cmp.Diff(e.want, elide(e.want, got, equal)); d != "" {
			t.Errorf("%s:%d: ckptplan %s:\n%s", name, e.line, e.command, d)
		}
	}
	if *update {
		updated = append(updated, lines[done:]...)
		if err := os.WriteFile(file, []byte(strings.Join(updated, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestElide(t *testing.T) {
	got := []string{"a", "b", "c", "d"}
	for _, want := range [][]string{{"a", "b", "c", "d"}, {"a", "...", "d"}, {"...", "c", "d"}, {"a", "..."}, {"..."}} {
		if d := cmp.Diff(want, elide(want, got, equal)); d != "" {
			t.Errorf("%v: %s", want, d)
		}
	}
	for _, want := range [][]string{{"a"}, {"a", "...", "x"}, {"b", "..."}} {
		if cmp.Equal(want, elide(want, got, equal)) {
			t.Errorf("%v must differ", want)
		}
	}
}

// TestHelpExamples runs the examples in the help of every command: none is a usage error.
func TestHelpExamples(t *testing.T) {
	config, err := os.ReadFile(filepath.Join("..", "..", "testdata", "ground-truth", "configs", "gpt2.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.json", config, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := ckptplan("optimize", "llama-3.2-1b", "--budget", "80GB", "-o", "plan.yaml"); code != exitOK {
		t.Fatal(stderr)
	}
	command := regexp.MustCompile(`(?m)^ .*?\bckptplan ([a-z]+( [^ \n]+)*)`)
	found := 0
	for _, cmd := range append(newRootCommand(&globals{}).Commands(), &cobra.Command{Long: newRootCommand(&globals{}).Long}) {
		if cmd.Name() == "completion" {
			continue
		}
		for _, m := range command.FindAllStringSubmatch(cmd.Long, -1) {
			found++
			args := strings.Fields(m[1])
			if args[0] == "verify" {
				args = append(args, "--engine", "cuda") // which is not there: all is read, but no device is opened
			}
			if code, _, stderr := ckptplan(args...); code != exitOK && code != exitDoesNotFit && (code != exitNoDevice || args[0] != "verify") {
				t.Errorf("ckptplan %s: exit code %d: %s", m[1], code, stderr)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d examples found", found)
	}
}
