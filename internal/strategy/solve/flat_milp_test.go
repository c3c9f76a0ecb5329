package solve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ckptplan/internal/thorough"
)

// writeLP states a problem as a mixed-integer program in LP format: x_i_k = 1 if block i takes option k.
func writeLP(p *Problem) string {
	var objective, rows, ones, binaries strings.Builder
	heads := []Choice{{Forward: p.HeadForward, Backward: p.HeadBackward}}
	name := func(i, k int) string { return fmt.Sprintf("x_%d_%d", i, k) }
	menus := make([][]Choice, 0, len(p.Blocks)+1)
	for _, b := range p.Blocks {
		menus = append(menus, b.Choices)
	}
	menus = append(menus, heads)
	// term appends a coefficient; zero ones are left out except where a row would be empty.
	term := func(b *strings.Builder, coefficient int64, name string) {
		fmt.Fprintf(b, " + %d %s", coefficient, name)
	}
	grads := p.HeadGrad
	for _, b := range p.Blocks {
		grads += b.Grad
	}
	for i, menu := range menus {
		if i < len(p.Blocks) {
			grads -= p.Blocks[i].Grad
		} else {
			grads -= p.HeadGrad
		}
		var forward, backward, one strings.Builder
		for j := range p.Blocks {
			for k, c := range menus[j] {
				var f, b int64
				if j < i {
					f += c.Save + c.Linger
					b += c.Save
				}
				if j == i {
					f += c.Forward
					b += c.Backward + grads
				}
				term(&forward, f, name(j, k))
				term(&backward, b, name(j, k))
			}
		}
		if i == len(p.Blocks) {
			for k, c := range menu {
				term(&forward, c.Forward, name(i, k))
				term(&backward, c.Backward, name(i, k))
			}
		}
		room := strconv.FormatInt(p.Budget-p.Base, 10)
		fmt.Fprintf(&rows, "f%d:%s <= %s\nb%d:%s <= %s\n", i, forward.String(), room, i, backward.String(), room)
		for k, c := range menu {
			term(&objective, c.Time, name(i, k))
			term(&one, 1, name(i, k))
			fmt.Fprintf(&binaries, "%s\n", name(i, k))
		}
		fmt.Fprintf(&ones, "one%d:%s = 1\n", i, one.String())
	}
	return "Minimize\nobj:" + objective.String() + "\nSubject To\n" + rows.String() + ones.String() + "Binaries\n" + binaries.String() + "End\n"
}

// solveLP runs cbc to gap 0 and returns the objective; ok is false if the program is infeasible.
func solveLP(t *testing.T, cbc, text string) (objective int64, ok bool) {
	t.Helper()
	dir := t.TempDir()
	model, answer := filepath.Join(dir, "p.lp"), filepath.Join(dir, "p.sol")
	if err := os.WriteFile(model, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cbc, model, "ratioGap", "0", "allowableGap", "0", "solve", "solution", answer).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line, err := os.ReadFile(answer)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first, _, _ := strings.Cut(string(line), "\n")
	if !strings.HasPrefix(first, "Optimal") {
		return 0, false
	}
	fields := strings.Fields(first)
	v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(v + 0.5), true
}

// TestSolveFlatEqualsMILP solves random chains, larger than enumeration allows, with another program.
func TestSolveFlatEqualsMILP(t *testing.T) {
	cbc, err := exec.LookPath("cbc")
	if err != nil {
		t.Skip("cbc is not installed (package coinor-cbc)")
	}
	instances := 60
	if !thorough.On {
		instances = 10
	}
	r := rand.New(rand.NewPCG(11, 12))
	for n := range instances {
		p := randomProblem(r, 14, 6)
		p.Floor = 0
		p.unshare()
		least, err := MinPeak(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, budget := range []int64{least.Peak + r.Int64N(100), least.Peak - 1} {
			p.Budget = budget
			want, ok := solveLP(t, cbc, writeLP(p))
			s, err := SolveFlat(context.Background(), p)
			var infeasible *InfeasibleError
			if ok != (err == nil) || (!ok && !errors.As(err, &infeasible)) {
				t.Fatalf("instance %d: budget %d: cbc feasible %v, here %v", n, budget, ok, err)
			}
			if ok && s.Time != want {
				t.Fatalf("instance %d: budget %d: got %d, cbc %d", n, budget, s.Time, want)
			}
		}
	}
}

// unshare makes what is shared nobody's: writeLP has no rows for it.
func (p *Problem) unshare() {
	p.Shared = nil
	for i := range p.Blocks {
		for k := range p.Blocks[i].Choices {
			p.Blocks[i].Choices[k].Holds = 0
		}
	}
}
