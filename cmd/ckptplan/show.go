package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckptplan/internal/certificate"
	"ckptplan/internal/gpu"
	"ckptplan/internal/plan"
	"ckptplan/internal/report"
)

func newShowCommand(g *globals) *cobra.Command {
	var o outputOptions
	var check bool
	cmd := &cobra.Command{
		Use:   "show PLAN",
		Short: "Print a plan file",
		Long: `Show reads a plan file that optimize wrote, or one written by hand, and prints what it says. With
--check it also verifies the certificate that optimize writes, by code that shares nothing with the solver: the plan is
replayed, the cost of every option is simulated again, the bound is added up, and the search is repeated another way;
for a nested plan, the least time of all nested plans is found again. Checks that take too long are reported as unproved.

Exit codes: 0 done, 1 unexpected, 2 usage, 3 the file is not a valid plan or has no certificate to check, 5 a claim of the
certificate is wrong (the result is still printed).`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("show takes one plan file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(g); err != nil {
				return err
			}
			src, err := readInput(args[0])
			if err != nil {
				return unreadable(args[0], err)
			}
			f, err := plan.Read(args[0], src)
			if err != nil {
				return err
			}
			doc := report.Show(f)
			if !check {
				return o.write(cmd, g, doc)
			}
			checked, err := checkPlan(cmd.Context(), f)
			if err != nil {
				return &inputError{fmt.Errorf("%s: %w", args[0], err)}
			}
			showChecked(doc, f, checked)
			if err := o.write(cmd, g, doc); err != nil {
				return err
			}
			return checked.Err()
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "verify the certificate without the solver")
	return cmd
}

// checkPlan verifies the certificate of a plan file for the model and the card that it names.
func checkPlan(ctx context.Context, f *plan.File) (*certificate.Report, error) {
	switch {
	case f.Certificate == nil:
		return nil, certificate.ErrNoCertificate
	case f.Spec == nil:
		return nil, errors.New("the plan file has no spec, so it cannot be checked on its own")
	}
	sheet, err := gpu.Lookup(f.Certificate.Card.Name)
	if err != nil {
		sheet = nil // the report says that times are not checked
	}
	return certificate.Check(ctx, f.Spec, f, sheet)
}

// showChecked adds what a check found to the document of a plan file.
func showChecked(d *report.Document, f *plan.File, r *certificate.Report) {
	fails, unproved := r.Count(certificate.Fails), r.Count(certificate.Unproved)
	switch {
	case fails > 0:
		d.Headline = report.Headline{Word: "wrong", Tone: report.Bad, Text: fmt.Sprintf("%d of %d claims of the certificate are wrong", fails, len(r.Findings))}
	case unproved > 0:
		d.Headline = report.Headline{Word: "not proved", Tone: report.Doubtful, Text: fmt.Sprintf("%d of %d claims of the certificate could not be checked; the others hold", unproved, len(r.Findings))}
	default:
		d.Headline = report.Headline{Word: "holds", Tone: report.Good, Text: fmt.Sprintf("all %d claims of the certificate hold", len(r.Findings))}
	}
	t := report.Table{Title: "certificate", Columns: []report.Column{{Name: "claim"}, {Name: "verdict"}, {Name: "claimed"}, {Name: "found"}, {Name: "how"}}}
	for _, x := range r.Findings {
		t.Rows = append(t.Rows, report.Row{x.Claim, string(x.Verdict), x.Claimed, x.Found, x.Detail})
	}
	d.Tables = append(d.Tables, t)
	d.Rows = t
	d.Data = struct {
		*plan.File
		Check *certificate.Report `json:"check"`
	}{f, r}
}
