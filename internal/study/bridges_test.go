package study

import "testing"

func TestBridgeWords(t *testing.T) {
	const what = "Bridges, which PyTorch cannot run (what a layer saves is kept while its input is dropped and made again), "
	some, none := int64(800_000), int64(0)
	for _, c := range []struct {
		loss *int64
		want string
	}{
		{&some, what + "would save another 800 µs (0.3 %)."}, // 0.8 ms of 266.7 ms
		{&none, what + "would save nothing."},
		{nil, "What bridges, which PyTorch cannot run, would save is not known: the chain is too long for that search."},
	} {
		if got := bridgeWords(c.loss, 266_700_000); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
