package supervise

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestATailKeepsTheLastBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		tail := NewTail(size)
		all := ""
		for _, part := range rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,50}`), 0, 20).Draw(t, "parts") {
			if n, err := tail.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("Write returned %d, %v for %d bytes", n, err, len(part))
			}
			all += part
		}
		text, cut := tail.Text()
		if want := all[max(0, len(all)-size):]; text != want || cut != (len(all) > size) {
			t.Fatalf("got %q, %v, want %q, %v", text, cut, want, len(all) > size)
		}
		if len(tail.kept) > 2*size {
			t.Fatalf("%d bytes are kept for %d", len(tail.kept), size)
		}
	})
}

func TestATailIsText(t *testing.T) {
	tail := NewTail(100)
	tail.Write([]byte(" \n a\xffb \n"))
	if text, cut := tail.Text(); text != "a\uFFFDb" || cut {
		t.Errorf("got %q, %v", text, cut)
	}
	tail.Write([]byte(strings.Repeat("x", 100)))
	if text, cut := tail.Text(); len(text) != 100 || !cut {
		t.Errorf("%d bytes, %v", len(text), cut)
	}
}
