package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ckptplan/internal/report"
)

// outputOptions say how and where a result is written.
type outputOptions struct {
	format string
	file   string
}

func (o *outputOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.format, "format", "table", "format: table, markdown, csv or json")
	cmd.Flags().StringVar(&o.file, "output", "", "write the result to this `file` instead of stdout, completely or not at all")
	complete(cmd, "format", "table", "markdown", "csv", "json")
	section(cmd, outputSection)
}

// check refuses values before any work is done.
func (o *outputOptions) check(g *globals) error {
	if _, err := report.ParseFormat(o.format); err != nil {
		return usagef("--%w", err)
	}
	if err := placeOf("output", o.file); err != nil {
		return err
	}
	switch g.color {
	case "auto", "always", "never":
		return nil
	}
	return usagef("--color %q is not one of auto, always, never", g.color)
}

// placeOf refuses a path that cannot be written before any work is done.
func placeOf(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return usagef("--%s %s: it is a folder, not a file", flag, file)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return usagef("--%s %s: there is no folder %s", flag, file, filepath.Dir(file))
	}
	return nil
}

// write renders a document to stdout or to a file.
func (o *outputOptions) write(cmd *cobra.Command, g *globals, d *report.Document) error {
	format, err := report.ParseFormat(o.format)
	if err != nil {
		return usagef("--%w", err)
	}
	if o.file == "" {
		return d.Write(cmd.OutOrStdout(), format, g.colour(cmd.OutOrStdout()))
	}
	var b bytes.Buffer
	if err := d.Write(&b, format, g.color == "always" && !g.noColor); err != nil {
		return err
	}
	return writeWhole(o.file, b.Bytes())
}

// colour is true if output is a terminal that wants colour, or if colour is asked for.
func (g *globals) colour(w io.Writer) bool {
	if g.noColor || g.color == "never" {
		return false
	}
	if g.color == "always" {
		return true
	}
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// writeWhole writes a file completely or not at all: it writes a new file in the same folder and renames it. As with shell
// redirection, a link is followed, an existing file keeps its mode and is left alone if it cannot be written,
// and a new one gets the mode that the umask leaves.
func writeWhole(file string, content []byte) (err error) {
	info, statErr := os.Stat(file)
	if statErr == nil && !info.Mode().IsRegular() {
		return os.WriteFile(file, content, 0) // a device or a pipe, such as /dev/stdout, cannot be replaced
	}
	place := file
	if statErr == nil {
		if place, err = replaceable(file); err != nil {
			return err
		}
	}
	tmp, err := beside(place)
	if err != nil {
		return fmt.Errorf("%s: %w", file, cause(err))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("%s: %w", file, cause(err))
		}
	}()
	_, err = tmp.Write(content)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil && statErr == nil {
		err = os.Chmod(tmp.Name(), info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(tmp.Name(), place)
	}
	return err
}

// replaceable is the file that a name leads to, if it may be written.
func replaceable(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, cause(err))
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(file)
}

// beside creates a file with a new name in the folder of another.
func beside(file string) (*os.File, error) {
	for n := 0; ; n++ {
		name := filepath.Join(filepath.Dir(file), fmt.Sprintf(".%s.%d.%d", filepath.Base(file), os.Getpid(), n))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || n > 999 {
			return f, err
		}
	}
}

// cause is an error without the name of the file, which may be a temporary one.
func cause(err error) error {
	var place *fs.PathError
	var move *os.LinkError
	switch {
	case errors.As(err, &place):
		return place.Err
	case errors.As(err, &move):
		return move.Err
	}
	return err
}
