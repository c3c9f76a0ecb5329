package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ckptplan": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
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
