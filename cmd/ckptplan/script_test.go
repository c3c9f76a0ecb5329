package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ckptplan/internal/gpu/cuda"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ckptplan": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("TORCH_PYTHON", os.Getenv("TORCH_PYTHON"))
			driver, err := filepath.Abs("../../internal/gpu/cuda/testdata/libcuda.c")
			e.Setenv("CUDA_STAND_IN", driver)
			return err
		},
		Condition: condition,
	})
}

// condition is true for torch if TORCH_PYTHON names a Python that has it, and for cuda if there is a device.
func condition(name string) (bool, error) {
	switch name {
	case "torch":
		return os.Getenv("TORCH_PYTHON") != "", nil
	case "cuda":
		devices, err := cuda.Discover()
		for _, d := range devices {
			_ = d.Close()
		}
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %s", name)
}

// exits checks the exit code of a command line: exits 2 estimate --bogus.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil {
		ts.Fatalf("usage: exits code arguments")
	}
	err = ts.Exec("sh", append([]string{"-c", `ckptplan "$@" >/dev/null 2>&1; test $? = ` + args[0], "sh"}, args[1:]...)...)
	if err != nil {
		ts.Fatalf("ckptplan %s: the exit code is not %d", strings.Join(args[1:], " "), want)
	}
}
