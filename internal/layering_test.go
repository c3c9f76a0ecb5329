// Package internal holds no code. Its test keeps the imports between the packages one-way.
package internal

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "ckptplan"

// layers says which packages of the module a package may import, lowest first: everything known about a model stands
// below everything that judges it, which stands below everything that chooses and shows.
var layers = map[string][]string{
	"configs":                   {},
	"internal/model/dtype":      {},
	"internal/model/graph":      {"internal/model/dtype"},
	"internal/nearest":          {},
	"internal/unit":             {},
	"internal/gpu":              {"configs", "internal/model/dtype", "internal/model/graph", "internal/nearest", "internal/unit"},
	"internal/hugepage":         {},
	"internal/document":         {"internal/nearest"},
	"internal/optimizer":        {},
	"internal/model/spec":       {"internal/model/dtype", "internal/nearest", "internal/document", "internal/optimizer"},
	"internal/model/build":      {"internal/model/dtype", "internal/model/graph", "internal/hugepage", "internal/model/spec"},
	"internal/model/class":      {"internal/model/dtype", "internal/model/graph", "internal/nearest", "internal/document", "internal/model/spec", "internal/model/build"},
	"internal/model":            {"configs", "internal/model/dtype", "internal/model/graph", "internal/nearest", "internal/document", "internal/optimizer", "internal/model/spec", "internal/model/build", "internal/model/class"},
	"internal/plan":             {"internal/unit", "internal/document", "internal/model/graph", "internal/model/spec", "internal/model"},
	"internal/memory":           {"internal/model/dtype", "internal/model/graph", "internal/unit", "internal/gpu", "internal/hugepage", "internal/optimizer", "internal/model/spec", "internal/model/build", "internal/model", "internal/plan"},
	"internal/certificate":      {"internal/model/graph", "internal/gpu", "internal/model/spec", "internal/plan", "internal/memory"},
	"internal/exec":             {"internal/unit", "internal/model/graph", "internal/plan", "internal/memory"},
	"internal/exec/random":      {},
	"internal/exec/host":        {"internal/model/dtype", "internal/model/graph", "internal/unit", "internal/gpu", "internal/exec/random"},
	"internal/exec/interpreter": {"internal/model/dtype", "internal/model/graph", "internal/unit", "internal/gpu", "internal/memory", "internal/exec", "internal/exec/random"},
	"internal/exec/torch":       {"internal/model/graph", "internal/unit", "internal/model/spec", "internal/model/build", "internal/model/class", "internal/plan", "internal/exec"},
	"internal/strategy/solve":   {},
	"internal/strategy/menu":    {"internal/model/graph", "internal/gpu", "internal/model/build", "internal/model", "internal/plan", "internal/memory", "internal/strategy/solve"},
	"internal/strategy":         {"internal/model/graph", "internal/unit", "internal/gpu", "internal/model/spec", "internal/model/build", "internal/plan", "internal/memory", "internal/strategy/solve", "internal/strategy/menu"},
	"internal/export":           {"internal/unit", "internal/model/graph", "internal/model/spec", "internal/model/class", "internal/plan", "internal/memory", "internal/exec/torch", "internal/strategy"},
	"internal/gpu/cuda":         {"internal/unit", "internal/gpu"},
	"internal/study":            {"internal/model/dtype", "internal/model/graph", "internal/unit", "internal/gpu", "internal/optimizer", "internal/model/spec", "internal/model/build", "internal/model", "internal/plan", "internal/memory", "internal/exec", "internal/strategy/solve", "internal/strategy", "internal/export"},
	"internal/report":           {"internal/unit", "internal/gpu", "internal/model", "internal/plan", "internal/study"},
	"cmd/ckptplan":              {"internal/nearest", "internal/unit", "internal/gpu", "internal/document", "internal/model/spec", "internal/model", "internal/plan", "internal/certificate", "internal/exec", "internal/exec/host", "internal/exec/interpreter", "internal/exec/torch", "internal/strategy/solve", "internal/strategy", "internal/export", "internal/gpu/cuda", "internal/study", "internal/report"},
	"internal/groundtruth":      {"internal/model/dtype", "internal/model/spec", "internal/model"},
	"internal/thorough":         {},
}

// testsMay says what test files import beyond that.
var testsMay = map[string][]string{
	"internal/memory":           {"internal/model/class"},
	"internal/exec/interpreter": {"internal/model/spec", "internal/model/build", "internal/model", "internal/plan", "internal/exec/host"},
	"internal/exec/torch":       {"internal/model", "internal/memory"},
	"internal/strategy":         {"internal/model", "internal/model/dtype"},
	"internal/study":            {"internal/strategy/menu"},
	"internal/export":           {"internal/unit", "internal/gpu", "internal/model", "internal/memory"},
	"cmd/ckptplan":              {"internal/model/dtype", "internal/model/build", "internal/memory"},
}

// testSupport are packages that only test files import.
var testSupport = []string{"internal/groundtruth", "internal/thorough"}

// homes says which packages may import a third-party module. Most have one home. YAML nodes pass from the strict reader to those
// that give them a meaning, and a data sheet is plain enough to be decoded directly.
var homes = map[string][]string{
	"github.com/spf13/":            {"cmd/ckptplan"},
	"github.com/schollz/":          {"cmd/ckptplan"},
	"golang.org/x/term":            {"cmd/ckptplan"},
	"github.com/olekukonko/":       {"internal/report"},
	"github.com/fatih/color":       {"internal/report"},
	"github.com/guptarohit/":       {"internal/report"},
	"github.com/go-analyze/charts": {"internal/report"},
	"gonum.org/v1/gonum":           {"internal/exec", "internal/exec/host"},
	"go.yaml.in/yaml/v4":           {"internal/document", "internal/model/spec", "internal/model/class", "internal/model", "internal/plan", "internal/gpu"},
	"github.com/invopop/":          {"internal/model"},
	"github.com/ebitengine/purego": {"internal/gpu/cuda"},
}

// testOnly are modules that only test files import.
var testOnly = []string{
	"github.com/google/go-cmp/", "pgregory.net/rapid", "github.com/rogpeppe/go-internal/", "github.com/santhosh-tekuri/jsonschema/",
	"github.com/invopop/jsonschema", "go.yaml.in/yaml/v4",
}

// Every import of every package, on every system, is in the tables above; test files may also use what only tests use.
func TestLayers(t *testing.T) {
	fset := token.NewFileSet()
	seen := map[string]bool{}
	walk := func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (e.Name() == "testdata" || strings.HasPrefix(e.Name(), ".") && file != "..") {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(file, ".go") {
			return nil
		}
		rel, err := filepath.Rel("..", file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		pkg := path.Dir(rel)
		if pkg == "internal" || strings.HasPrefix(pkg, "tools") {
			return nil
		}
		seen[pkg] = true
		if _, known := layers[pkg]; !known {
			t.Errorf("%s: package %s has no place among the layers", rel, pkg)
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if why := refused(pkg, name, strings.HasSuffix(file, "_test.go")); why != "" {
				t.Errorf("%s imports %s: %s", rel, name, why)
			}
		}
		return nil
	}
	if err := filepath.WalkDir("..", walk); err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"internal/model", "internal/memory"} {
		if !seen[pkg] {
			t.Errorf("%s was not looked at", pkg)
		}
	}
}

// refused says why a package may not import name, or "".
func refused(pkg, name string, test bool) string {
	if rest, ours := strings.CutPrefix(name, module+"/"); ours {
		if test && (slices.Contains(testSupport, rest) || slices.Contains(testsMay[pkg], rest)) {
			return ""
		}
		if rest != pkg && !slices.Contains(layers[pkg], rest) {
			return "it may import " + strings.Join(layers[pkg], ", ")
		}
		return ""
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		if name == "C" {
			return "the binary is built without cgo"
		}
		return "" // standard library
	}
	if test && slices.ContainsFunc(testOnly, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return ""
	}
	for prefix, ps := range homes {
		if strings.HasPrefix(name, prefix) {
			if !slices.Contains(ps, pkg) {
				return "its home is " + strings.Join(ps, ", ")
			}
			return ""
		}
	}
	return "it is in no table of dependencies"
}

// The table itself points one way.
func TestLayersHaveNoCycle(t *testing.T) {
	state := map[string]int{}
	var visit func(pkg string)
	visit = func(pkg string) {
		switch state[pkg] {
		case 1:
			t.Fatalf("%s imports itself through others", pkg)
		case 2:
			return
		}
		state[pkg] = 1
		for _, p := range layers[pkg] {
			if _, known := layers[p]; !known {
				t.Errorf("%s may import %s, which is not a package", pkg, p)
			}
			visit(p)
		}
		state[pkg] = 2
	}
	for pkg := range layers {
		visit(pkg)
	}
}

// Nothing below cmd prints to the process's streams, reads the environment or exits: packages return values.
func TestOnlyCommandsTouchTheProcess(t *testing.T) {
	for _, name := range []string{"unit", "nearest", "model", "plan", "memory", "strategy", "strategy/solve", "certificate", "export", "study", "report"} {
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"os.Getenv(", "os.LookupEnv(", "os.Exit(", "os.Stdout", "os.Stderr", "fmt.Print", "log.", "panic(err"} {
				for n, line := range strings.Split(string(src), "\n") {
					code, _, _ := strings.Cut(line, "//")
					if i := strings.Index(code, call); i >= 0 && (i == 0 || !strings.ContainsAny(code[i-1:i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_\"")) {
						t.Errorf("%s:%d: %s belongs in cmd", file, n+1, strings.Trim(call, "("))
					}
				}
			}
		}
	}
}
