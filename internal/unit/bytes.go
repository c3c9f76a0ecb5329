// Package unit holds the quantities that ckptplan computes with: Bytes, FLOPs and Duration. All are int64, so that
// sums are exact, ties are ties and runs are deterministic; floating point appears only when a number is printed.
package unit

// Bytes is an amount of memory in bytes. A negative value is a difference.
type Bytes int64

// Binary sizes, in bytes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
	PiB Bytes = 1 << 50
)

// Decimal sizes, in bytes.
const (
	KB Bytes = 1e3
	MB Bytes = 1e6
	GB Bytes = 1e9
	TB Bytes = 1e12
	PB Bytes = 1e15
)

var binary = []step{{"B", 1}, {"KiB", int64(KiB)}, {"MiB", int64(MiB)}, {"GiB", int64(GiB)}, {"TiB", int64(TiB)}, {"PiB", int64(PiB)}}

var decimal = []step{{"B", 1}, {"kB", int64(KB)}, {"MB", int64(MB)}, {"GB", int64(GB)}, {"TB", int64(TB)}, {"PB", int64(PB)}}

// String prints b in the largest binary unit it fills, with three significant digits: "19.8 GiB".
func (b Bytes) String() string { return format(int64(b), binary, 3) }

// Decimal prints b in the largest decimal unit it fills, with three significant digits: "21.3 GB".
func (b Bytes) Decimal() string { return format(int64(b), decimal, 3) }

// Both prints b in decimal and binary units, since people read GB as either: "21.3 GB (19.8 GiB)".
func (b Bytes) Both() string { return b.Decimal() + " (" + b.String() + ")" }

// Echo is Both with four significant digits, which commands print for a size that they were given, so that the user sees
// how it was read: "24.00 GB (22.35 GiB)".
func (b Bytes) Echo() string {
	return format(int64(b), decimal, 4) + " (" + format(int64(b), binary, 4) + ")"
}

// Set reads a size as ParseBytes does. With Type and String it makes Bytes a command-line flag.
func (b *Bytes) Set(s string) error {
	v, err := ParseBytes(s)
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// Type names the kind of value in a command's help.
func (b *Bytes) Type() string { return "size" }
