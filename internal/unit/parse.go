package unit

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// maxSizeText bounds the text of a size, so that a long fraction costs no time. The largest int64 has 19 digits.
const maxSizeText = 64

// sizes are the units of a size, by their lower-case spelling.
var sizes = map[string]Bytes{
	"": 1, "b": 1,
	"kb": KB, "mb": MB, "gb": GB, "tb": TB, "pb": PB,
	"kib": KiB, "mib": MiB, "gib": GiB, "tib": TiB, "pib": PiB,
}

// ParseBytes reads a memory size: 24GB is 24·10⁹ bytes, 24GiB is 24·2³⁰, a bare number is bytes. Case does not matter
// except that a small b behind a capital letter (24Gb) means bits and is refused. 24G and 24Gi are refused, since
// tools disagree about them, and so is a bare number too small for a device (24, 24576). A fraction of a unit is cut to whole
// bytes: PyTorch prints the memory of a card with two decimals (23.65 GiB). The size is at least one byte. Number and unit
// are one word.
func ParseBytes(s string) (Bytes, error) {
	b, err := parseBytes(s)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", shorten(s), err)
	}
	return b, nil
}

func parseBytes(s string) (Bytes, error) {
	switch {
	case s == "":
		return 0, errors.New("empty; write it like 24GB or 24GiB")
	case len(s) > maxSizeText:
		return 0, errors.New("too long; write it like 24GB or 24GiB")
	}
	number, unit := splitNumber(s)
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, errors.New("negative; a size is at least one byte")
	case number == "" || number == ".":
		return 0, errors.New("not a number with a unit; write it like 24GB or 24GiB")
	case strings.ContainsAny(unit, " \t\n\r"):
		return 0, fmt.Errorf("blank in a size; %s", together(number, unit))
	case strings.HasSuffix(number, ".") || strings.Count(number, ".") > 1:
		return 0, errors.New("malformed number; write it like 1.5GiB")
	}
	size, err := unitSize(number, unit)
	if err != nil {
		return 0, err
	}
	b, err := multiply(number, size)
	if err == nil && unit == "" && b < smallestBare {
		return 0, fmt.Errorf("a number without a unit is bytes: did you mean %s%s?", number, map[bool]string{true: "GB", false: "MiB"}[b < 1000])
	}
	return b, err
}

// smallestBare is the least number of bytes that is taken without a unit: 24 is meant in GB, and 24576 in MiB, as
// nvidia-smi has it.
const smallestBare = MB

// splitNumber cuts s after its leading digits and points.
func splitNumber(s string) (number, unit string) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

// unitSize is the bytes of one unit.
func unitSize(number, unit string) (Bytes, error) {
	lower := strings.ToLower(unit)
	if bits(unit) {
		return 0, fmt.Errorf("%s means bits; write %s%s for bytes", unit, number, strings.TrimSuffix(unit, "b")+"B")
	}
	if size, ok := sizes[lower]; ok {
		return size, nil
	}
	prefix := strings.ToUpper(strings.TrimSuffix(lower, "i"))
	if len(prefix) == 1 && strings.Contains("KMGTP", prefix) {
		return 0, fmt.Errorf("tools disagree about the unit %s; %s", unit, readings(number, prefix))
	}
	return 0, fmt.Errorf("unknown unit %q; known are B, kB, MB, GB, TB, PB (powers of 1000) and KiB, MiB, GiB, TiB, PiB (powers of 1024)", unit)
}

// bits is true for a unit of bits, as 24Gb and 24Gib are read by the rules of SI: a small b behind a capital letter.
// A lone small b is as ambiguous.
func bits(unit string) bool {
	prefix, ok := strings.CutSuffix(unit, "b")
	_, known := sizes[strings.ToLower(unit)]
	return ok && known && (prefix == "" || prefix != strings.ToLower(prefix))
}

// readings spells out the two meanings of a unit given by its prefix alone.
func readings(number, prefix string) string {
	power := strings.Index("KMGTP", prefix)
	decimals := [...]string{"10³", "10⁶", "10⁹", "10¹²", "10¹⁵"}
	binaries := [...]string{"2¹⁰", "2²⁰", "2³⁰", "2⁴⁰", "2⁵⁰"}
	return fmt.Sprintf("write %[1]s%[2]sB (%[1]s·%[3]s bytes) or %[1]s%[2]siB (%[1]s·%[4]s bytes)", number, prefix, decimals[power], binaries[power])
}

// together suggests how to write a size that has a blank in it.
func together(number, unit string) string {
	lower := strings.ToLower(strings.TrimSpace(unit))
	prefix := strings.ToUpper(strings.TrimSuffix(strings.TrimSuffix(lower, "b"), "i"))
	if len(prefix) == 1 && strings.Contains("KMGTP", prefix) {
		return readings(number, prefix)
	}
	return "write number and unit as one word, like 24GB or 24GiB"
}

// multiply is number·size, cut to whole bytes. number holds digits and at most one point.
func multiply(number string, size Bytes) (Bytes, error) {
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, errors.New("malformed number; write it like 1.5GiB")
	}
	value.Mul(value, new(big.Rat).SetInt64(int64(size)))
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	switch {
	case size == 1 && !value.IsInt():
		return 0, errors.New("not a whole number of bytes")
	case whole.Sign() == 0:
		return 0, errors.New("zero; a size is at least one byte")
	case whole.Cmp(big.NewInt(math.MaxInt64)) > 0:
		return 0, fmt.Errorf("too large; the most is %d bytes", int64(math.MaxInt64))
	}
	return Bytes(whole.Int64()), nil
}

// shorten keeps a long input from filling the screen.
func shorten(s string) string {
	if len(s) <= maxSizeText {
		return s
	}
	return s[:maxSizeText] + "…"
}
