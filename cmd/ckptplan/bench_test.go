package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// The largest preset: 126 layers.
var largest = []string{"estimate", "llama-3.1-405b", "--strategy", "full"}

// BenchmarkProcess405B times the whole process, from its start to its exit. cpu-ms is user and system time, which other
// work on the machine disturbs less than the wall clock; rss-MB is the largest resident set.
func BenchmarkProcess405B(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "ckptplan")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var cpu, rss int64
	for b.Loop() {
		cmd := exec.Command(bin, largest...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+b.TempDir())
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		cpu += int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
		if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			rss = max(rss, u.Maxrss) // KiB on Linux
		}
	}
	b.ReportMetric(float64(cpu)/1e6/float64(b.N), "cpu-ms")
	b.ReportMetric(float64(rss)*1024/1e6, "rss-MB")
}

// BenchmarkRun405B is the same work in this process, without its start.
func BenchmarkRun405B(b *testing.B) {
	b.Setenv("XDG_CONFIG_HOME", b.TempDir())
	for b.Loop() {
		if code := run(context.Background(), largest, nil, io.Discard, io.Discard); code != exitOK {
			b.Fatal(code)
		}
	}
}
