// Package nearest finds the name that a mistyped one most likely means.
package nearest

import "strings"

// Name is the candidate that word most likely means, or "". Case, hyphens and underscores do not count; beyond that,
// one edit in three letters, or a letter too many if that leaves a single candidate: HH is H, HS may be H or S, and L1
// is a name of its own. Of equally near candidates it is the first.
func Name(word string, candidates []string) string {
	w := Fold(word)
	best, bestCost := "", 1+len(w)/3
	for _, c := range candidates {
		if d := Edits(w, Fold(c)); d < bestCost {
			best, bestCost = c, d
		}
	}
	if best == "" && len(w) == 2 {
		best = only(w, candidates)
	}
	return best
}

// only is the one candidate of a single letter that a word of letters has, or "" without one or with several.
func only(word string, candidates []string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
		return ""
	}
	found := ""
	for _, c := range candidates {
		if len(c) != 1 || !strings.Contains(word, Fold(c)) {
			continue
		}
		if found != "" {
			return ""
		}
		found = c
	}
	return found
}

// Fold drops differences that do not count between names: case, and hyphens against underscores.
func Fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// Edits is the Levenshtein distance, with a swap of neighbours as one edit. Words longer than any name are far.
func Edits(a, b string) int {
	const far = 1 << 20
	if len(a) > 64 || len(b) > 64 {
		return far
	}
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
