// Package mailbox has the common part of backends of [coord.Messages]: the receivers of one process, each with a bounded
// queue of messages.
package mailbox

import (
	"context"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Backlog is how many messages may wait for a receiver. If one more comes, all of them are dropped, and the receiver
// learns that messages were lost.
const Backlog = 1024

// Boxes has the mailboxes of some nodes. The zero Boxes has none. It is safe for concurrent use.
type Boxes struct {
	mu  sync.Mutex
	all map[string][]*Box // guarded by mu, by topic
}

// Box is a mailbox for the messages of one topic.
type Box struct {
	boxes  *Boxes
	topic  string
	filled wakeup.Signal // set when pending has something

	mu      sync.Mutex
	pending [][]byte // guarded by mu; at most Backlog; nil stands for the beginning
}

// Open adds a mailbox. isConnected says that messages reach it from now on. The caller calls [Box.Receive], once.
func (b *Boxes) Open(topic string, isConnected bool) *Box {
	box := &Box{boxes: b, topic: topic, filled: wakeup.New()}
	if isConnected {
		box.put(nil)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[string][]*Box{}
	}
	b.all[topic] = append(b.all[topic], box)
	return box
}

// Deliver puts a message into the mailboxes of a topic. It must not be changed any more.
func (b *Boxes) Deliver(topic string, message []byte) {
	if message == nil {
		message = []byte{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, box := range b.all[topic] {
		box.put(message)
	}
}

// Begin lets the receivers of all mailboxes know that messages reach them from now on.
func (b *Boxes) Begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, boxes := range b.all {
		for _, box := range boxes {
			box.put(nil)
		}
	}
}

// put appends a message, or nil for the beginning.
func (b *Box) put(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == Backlog {
		b.pending = append(b.pending[:0], nil)
	}
	b.pending = append(b.pending, message)
	b.filled.Set()
}

// Receive calls fn with the messages in the mailbox until ctx ends, and then returns nil. When closed is closed it returns
// [coord.ErrClosed]. It removes the mailbox in the end.
func (b *Box) Receive(ctx context.Context, closed <-chan struct{}, fn func([]byte)) error {
	defer b.boxes.remove(b)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return coord.ErrClosed
		case <-b.filled.C():
		}
		for _, m := range b.take() {
			if ctx.Err() != nil {
				return nil
			}
			fn(m)
		}
	}
}

func (b *Box) take() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.pending
	b.pending = nil
	return full
}

func (b *Boxes) remove(box *Box) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := slices.DeleteFunc(b.all[box.topic], func(o *Box) bool { return o == box })
	b.all[box.topic] = rest
	if len(rest) == 0 {
		delete(b.all, box.topic)
	}
}
