package certificate

import (
	"errors"
	"fmt"
	"strings"
)

// Verdict is what a check found out about a claim.
type Verdict string

// The verdicts.
const (
	Holds Verdict = "holds"
	Fails Verdict = "fails"
	// Unproved claims were not checked, or not to the end; no finding contradicts them.
	Unproved Verdict = "unproved"
)

// Finding is one claim of a certificate and the value that the check found for it.
type Finding struct {
	// Claim names the claim by its key in the plan file: peak.tensor_bytes.
	Claim   string  `json:"claim"`
	Verdict Verdict `json:"verdict"`
	Claimed string  `json:"claimed,omitempty"`
	Found   string  `json:"found,omitempty"`
	// Detail says how it was checked, or why it was not.
	Detail string `json:"detail,omitempty"`
}

func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", f.Claim)
	switch {
	case f.Verdict == Fails && f.Claimed != "":
		fmt.Fprintf(&b, "claimed %s, found %s", f.Claimed, f.Found)
	case f.Claimed != "":
		b.WriteString(f.Claimed)
	default:
		b.WriteString(string(f.Verdict))
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	return b.String()
}

// Report lists what a check found, claim by claim.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Count is how many findings have a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// Err is a *FailedError if a claim fails, else nil.
func (r *Report) Err() error {
	e := &FailedError{}
	for _, f := range r.Findings {
		if f.Verdict == Fails {
			e.Findings = append(e.Findings, f)
		}
	}
	if len(e.Findings) == 0 {
		return nil
	}
	return e
}

// FailedError says which claims of a certificate are not true.
type FailedError struct{ Findings []Finding }

func (e *FailedError) Error() string {
	claims := "claim"
	if len(e.Findings) > 1 {
		claims = "claims"
	}
	lines := []string{fmt.Sprintf("the certificate is wrong in %d %s:", len(e.Findings), claims)}
	for _, f := range e.Findings {
		lines = append(lines, "  "+f.String())
	}
	return strings.Join(lines, "\n")
}

// ErrNoCertificate is returned for a plan file without a certificate.
var ErrNoCertificate = errors.New("the plan file has no certificate: it was written by hand, for a named strategy or for a trainer")

func (r *Report) add(f Finding) { r.Findings = append(r.Findings, f) }

// equal reports a claim that should be the number found.
func equal[T comparable](r *Report, claim string, claimed, found T, detail string) {
	v := Holds
	if claimed != found {
		v = Fails
	}
	r.add(Finding{Claim: claim, Verdict: v, Claimed: fmt.Sprint(claimed), Found: fmt.Sprint(found), Detail: detail})
}
