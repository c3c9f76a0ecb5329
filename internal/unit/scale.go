package unit

import (
	"math"
	"strconv"
	"strings"
)

// step is a unit's name and its size in the base unit.
type step struct {
	name string
	size int64
}

// Scale is one unit that every cell of a column is printed in; Unit goes to the column's header.
type Scale struct {
	Unit string
	size int64
}

// CommonScale is the binary unit that suits the largest magnitude in column.
func CommonScale(column ...Bytes) Scale {
	var top Bytes
	for _, b := range column {
		top = max(top, b, -b)
	}
	st := pick(float64(top), binary)
	return Scale{st.name, st.size}
}

// Format prints b without its unit and with at least three significant digits; "0" stands for exactly 0 only.
func (s Scale) Format(b Bytes) string { return significant(float64(b)/float64(s.size), 3) }

// format prints v with its unit in the largest step that v fills, with the given number of significant digits.
func format(v int64, steps []step, digits int) string {
	st := pick(math.Abs(float64(v)), steps)
	if st.size == 1 {
		return strconv.FormatInt(v, 10) + " " + st.name
	}
	return significant(float64(v)/float64(st.size), digits) + " " + st.name
}

// pick is the last step that is not larger than v, which is not negative.
func pick(v float64, steps []step) step {
	st := steps[0]
	for _, next := range steps[1:] {
		if v < float64(next.size) {
			break
		}
		st = next
	}
	return st
}

// significant prints v with at least the given number of significant digits, never as an exponent. Digits before the
// decimal point are all kept: 1023 stays 1023.
func significant(v float64, digits int) string {
	if v == 0 {
		return "0"
	}
	// The exponent after rounding: 9.996 with three digits is 1.00e+01 and has one decimal.
	_, exp, _ := strings.Cut(strconv.FormatFloat(v, 'e', digits-1, 64), "e")
	power, _ := strconv.Atoi(exp)
	return strconv.FormatFloat(v, 'f', max(0, digits-1-power), 64)
}
