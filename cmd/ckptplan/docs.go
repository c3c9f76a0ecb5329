package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newDocsCommand writes man pages for a release.
func newDocsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "docs FOLDER",
		Short:  "Write a man page for every command",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("docs takes the folder to write to")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return manTree(cmd.Root(), args[0]) },
	}
}

// manTree writes the page of a command and of those below it.
func manTree(cmd *cobra.Command, dir string) error {
	if cmd.Hidden || cmd.Name() == "help" {
		return nil
	}
	file := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := writeWhole(filepath.Join(dir, file), manPage(cmd)); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := manTree(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// roff escapes text for a man page: backslashes, hyphens, and lines that would be requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// manPage is a command's help as a man page, in the man macros.
func manPage(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n", strings.ToUpper(name), "ckptplan "+version())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(text))
	manFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", cmd.InheritedFlags())
	var related []string
	if cmd.HasParent() {
		related = append(related, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			related = append(related, strings.ReplaceAll(sub.CommandPath(), " ", "-"))
		}
	}
	for i, r := range related {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		}
		fmt.Fprintf(&b, ".BR %s (1)\n", roff(r))
	}
	return b.Bytes()
}

func manFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(short+"--"+f.Name+" "+value)), roff(usage))
	})
}
