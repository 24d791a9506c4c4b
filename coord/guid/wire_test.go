package guid_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
)

// wire is the connection of one node to the messages of a process. It can be cut.
type wire struct {
	messages coord.Messages

	mu        sync.Mutex
	until     time.Time // guarded by mu: when it is whole again
	sent      int       // guarded by mu
	receivers []*receiver
}

// receiver is one call of Receive.
type receiver struct {
	mu sync.Mutex // held during a call of fn
	fn func([]byte)
}

func (r *receiver) call(message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fn(message)
}

// cut cuts the wire for some time, and then says that it is whole again.
func (w *wire) cut(d time.Duration) {
	w.mu.Lock()
	w.until = time.Now().Add(d)
	w.mu.Unlock()
	time.AfterFunc(d, func() {
		if w.isCut() {
			return // it was cut again
		}
		w.mu.Lock()
		all := slices.Clone(w.receivers)
		w.mu.Unlock()
		for _, r := range all {
			r.call(nil)
		}
	})
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.until)
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Send implements [coord.Messages].
func (w *wire) Send(topic string, message []byte) error {
	if w.isCut() {
		return nil
	}
	w.mu.Lock()
	w.sent++
	w.mu.Unlock()
	return w.messages.Send(topic, message)
}

// Receive implements [coord.Messages].
func (w *wire) Receive(ctx context.Context, topic string, fn func([]byte)) error {
	r := &receiver{fn: fn}
	w.mu.Lock()
	w.receivers = append(w.receivers, r)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.receivers = slices.DeleteFunc(w.receivers, func(o *receiver) bool { return o == r })
	}()
	return w.messages.Receive(ctx, topic, func(message []byte) {
		if !w.isCut() {
			r.call(message)
		}
	})
}
