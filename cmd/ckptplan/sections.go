package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The headings under which help lists flags, in its order. Flags without one come first.
const (
	modelSection  = "Model and training step"
	deviceSection = "Device"
	searchSection = "Search"
	runSection    = "Run"
	outputSection = "Output"
)

var sections = []string{"", searchSection, deviceSection, runSection, modelSection, outputSection}

// section puts the flags that a command has so far, and that have no heading, under one.
func section(cmd *cobra.Command, heading string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations["section"] == nil {
			_ = cmd.Flags().SetAnnotation(f.Name, "section", []string{heading})
		}
	})
}

// sectioned makes help list flags under their headings.
func sectioned(root *cobra.Command) {
	cobra.AddTemplateFunc("sections", func(cmd *cobra.Command) string {
		var b strings.Builder
		for _, heading := range sections {
			set := pflag.NewFlagSet("", pflag.ContinueOnError)
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if heading == "" && f.Annotations["section"] == nil || slices.Contains(f.Annotations["section"], heading) {
					set.AddFlag(f)
				}
			})
			if set.HasAvailableFlags() {
				b.WriteString(strings.TrimSpace(heading+" flags") + ":\n" + set.FlagUsages() + "\n")
			}
		}
		return "F" + strings.TrimPrefix(strings.TrimRight(b.String(), "\n"), "f")
	})
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{sections .}}", 1))
}
