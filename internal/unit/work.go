package unit

// FLOPs is an amount of floating-point work: a multiplication and an addition count as two.
type FLOPs int64

// String prints f with three significant digits: "1.23 TFLOP".
func (f FLOPs) String() string {
	return format(int64(f), []step{{"FLOP", 1}, {"kFLOP", 1e3}, {"MFLOP", 1e6}, {"GFLOP", 1e9}, {"TFLOP", 1e12}, {"PFLOP", 1e15}}, 3)
}

// Duration is a time in nanoseconds. Unlike time.Duration it prints with three significant digits in one unit.
type Duration int64

// Times, in nanoseconds.
const (
	Microsecond Duration = 1e3
	Millisecond Duration = 1e6
	Second      Duration = 1e9
)

// String prints d with three significant digits: "1.23 ms".
func (d Duration) String() string {
	return format(int64(d), []step{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}, 3)
}

// Seconds is d in seconds, for ratios and rates.
func (d Duration) Seconds() float64 { return float64(d) / float64(Second) }
