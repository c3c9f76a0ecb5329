package unit

import "strconv"

// Percent prints a share in per cent with one decimal; "0 %" and "100 %" are exactly that.
func Percent(v float64) string {
	switch {
	case v == 0 || v == 100:
		return strconv.Itoa(int(v)) + " %"
	case v > 0 && v < 0.05:
		return "< 0.1 %"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " %"
}

// Grouped prints a whole number in groups of three digits: 124,439,808.
func Grouped(v int64) string {
	s := strconv.FormatInt(v, 10)
	start := 0
	if v < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
