package main

import (
	"bytes"
	"context"
	"testing"
)

// ckptplan runs a command line in this process.
func ckptplan(args ...string) (code int, stdout, stderr string) {
	return ckptplanIn(context.Background(), args...)
}

func ckptplanIn(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"estimate"}, {"optimize", "--budget", "10GB"}} {
		code, stdout, stderr := ckptplanIn(ctx, args...)
		if code != exitInterrupted || stdout != "" || stderr != "ckptplan: interrupted\n" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
