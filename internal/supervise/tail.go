package supervise

import (
	"strings"
	"sync"
)

// Tail is a writer that keeps the last bytes that were written to it: the end of a program's output, for errors. Its
// methods may be called from any goroutine.
type Tail struct {
	size int

	mu   sync.Mutex
	kept []byte // guarded by mu: at most 2*size bytes
	cut  bool   // guarded by mu: more than kept was written
}

// NewTail returns a Tail that keeps size bytes.
func NewTail(size int) *Tail { return &Tail{size: size} }

// Write implements [io.Writer]. It never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(b) >= t.size {
		t.cut = t.cut || len(t.kept) > 0 || len(b) > t.size
		t.kept = append(t.kept[:0], b[len(b)-t.size:]...)
		return len(b), nil
	}
	if len(t.kept)+len(b) > 2*t.size {
		t.kept, t.cut = append(t.kept[:0], t.kept[len(t.kept)-t.size:]...), true
	}
	t.kept = append(t.kept, b...)
	return len(b), nil
}

// Text returns the last bytes as valid UTF-8, without space around them, and whether there were more before them.
func (t *Tail) Text() (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept[max(0, len(t.kept)-t.size):]
	return strings.TrimSpace(strings.ToValidUTF8(string(kept), "\uFFFD")), t.cut || len(kept) < len(t.kept)
}
