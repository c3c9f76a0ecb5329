package main

import (
	"bytes"
	"io"
	"os"
	"sync"

	"ckptplan/internal/document"
)

// pipes holds what came out of files that can be read only once (/dev/stdin, <(command)): a model's file is looked at
// for a plan first.
var pipes sync.Map

// readInput is os.ReadFile for specs, config.json and plan files. It stops after the largest size that is accepted,
// so that a checkpoint of many gigabytes, or an endless device, is refused and not read into memory.
func readInput(name string) ([]byte, error) {
	if src, ok := pipes.Load(name); ok {
		return src.([]byte), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	src, err := io.ReadAll(io.LimitReader(f, document.MaxSource+1))
	if err != nil {
		return nil, err
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // the byte order mark that Windows editors write
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		pipes.Store(name, src)
	}
	return src, nil
}
