package torch

import (
	"fmt"
	"regexp"
	"strings"
)

// topLevel is the first line of a top-level definition of a Python file.
var topLevel = regexp.MustCompile(`^(?:class|def) (\w+)|^(\w+) = `)

// Definitions are top-level functions, classes and values of the runner's files, by name, so that what a user's program runs is
// what the engine runs.
func Definitions() (map[string]string, error) {
	files, err := runner.ReadDir("runner")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range files {
		src, err := runner.ReadFile("runner/" + f.Name())
		if err != nil {
			return nil, err
		}
		var name string
		var above []string // comments right above a definition belong to it
		for line := range strings.Lines(string(src)) {
			m := topLevel.FindStringSubmatch(line)
			switch {
			case m != nil:
				name = m[1] + m[2]
				out[f.Name()+":"+name] = strings.Join(above, "") + line
				above = nil
			case strings.HasPrefix(line, "#"):
				above, name = append(above, line), ""
			case name != "" && (strings.TrimSpace(line) == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, ")") || strings.HasPrefix(line, "}")):
				out[f.Name()+":"+name] += line
			default:
				name, above = "", nil
			}
		}
	}
	return out, nil
}

// Definition is one of them.
func Definition(file, name string) (string, error) {
	all, err := Definitions()
	if err != nil {
		return "", err
	}
	src, ok := all[file+":"+name]
	if !ok {
		return "", fmt.Errorf("runner/%s has no %s", file, name)
	}
	return strings.TrimRight(src, "\n") + "\n", nil
}
