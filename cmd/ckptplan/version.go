package main

import (
	"cmp"
	"runtime/debug"
)

// release is the version that a release build sets: -ldflags "-X main.release=v1.2.3".
var release string

// version is the release, else the version of the module or the commit that the Go tool recorded.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, revision, modified := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+modified"
		}
	}
	if v == "(devel)" || v == "" {
		v = cmp.Or(revision+modified, "development")
	}
	return v
}
