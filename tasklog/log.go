package tasklog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// The bounds of a log that [Options] says nothing about.
const (
	DefaultMaxBytes     = 256 << 20
	DefaultMemoryBytes  = 16 << 20
	DefaultAttemptLines = 10_000
	DefaultAttemptBytes = 1 << 20

	// MinBytes is the least that a log may keep.
	MinBytes = 1 << 20
	// MaxLine is how many bytes a line may have, in its segment. The texts of a longer
	// one are cut.
	MaxLine = 16 << 10
)

const (
	// flushEvery is how long lines wait at most until they are written.
	flushEvery = 200 * time.Millisecond
	// bufferBytes is how many bytes of lines may wait to be written, and noteBytes how many
	// together with the log's own: those tell of what found no room.
	bufferBytes = 4 << 20
	noteBytes   = 2 * bufferBytes
	// keptBytes is how large a buffer may be that stays when few lines come.
	keptBytes = 256 << 10
)

// Options say what a log keeps.
type Options struct {
	Dir          string       // of the segments, made when the first line is written; "" keeps them in memory
	MaxBytes     int64        // of all segments; 0 is 256 MiB, or 16 MiB in memory; at least MinBytes
	AttemptLines int          // of one attempt; 0 is 10 000
	AttemptBytes int          // of one attempt; 0 is 1 MiB
	Log          *slog.Logger // of what goes wrong with the disk; nil for none
}

// Log is a log of tasks. Its methods may be called from any goroutine. A nil Log keeps
// nothing: it has the methods Log, Ended and Close only.
type Log struct {
	shelf    *shelf
	log      *slog.Logger
	encoders sync.Pool // of *encoder

	dirty   chan struct{} // has a token when the buffer is not empty
	urgent  chan struct{} // has a token when it is not to wait
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has ended

	counting atomic.Bool // whether any attempt is counted; changed with mu held

	mu       sync.Mutex
	buffer   []byte        // guarded by mu: lines to be written
	spare    []byte        // guarded by mu: the next buffer
	tallies  tallies       // guarded by mu
	accepted int64         // guarded by mu: bytes that ever went to the buffer
	settled  int64         // guarded by mu: of these, written or lost
	changed  chan struct{} // guarded by mu: closed when settled grows
	closed   bool          // guarded by mu

	outage outage // owned by the writer
}

// Open returns the log of a folder. The caller closes it, when nobody else can have the
// folder open. It does not fail: a log on a disk that is broken drops its lines until it
// is mended.
func Open(o Options) *Log {
	var d disk = folder(o.Dir)
	most := int64(DefaultMaxBytes)
	if o.Dir == "" {
		d, most = newMemory(), DefaultMemoryBytes
	}
	return open(o, d, max(MinBytes, cmp.Or(o.MaxBytes, most)))
}

func open(o Options, d disk, most int64) *Log {
	l := &Log{
		shelf:    newShelf(d, most),
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		encoders: sync.Pool{New: func() any { return newEncoder() }},
		dirty:    make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		closing: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}),
		tallies: tallies{
			lines: cmp.Or(o.AttemptLines, DefaultAttemptLines),
			bytes: cmp.Or(o.AttemptBytes, DefaultAttemptBytes),
		},
	}
	go l.write()
	return l
}

// Log adds a line about an attempt of a task. It does not wait. A line that does not fit is
// dropped and counted; after Close all are.
func (l *Log) Log(id task.ID, attempt uint32, r slog.Record) {
	if l == nil {
		return
	}
	if l.isFull(key{id, attempt}) {
		return
	}
	e := l.encoders.Get().(*encoder)
	l.add(key{id, attempt}, e.encode(key{id, attempt}, r))
	e.shrink()
	l.encoders.Put(e)
}

// isFull reports whether an attempt may log no more, and then counts a line that it drops: no
// line is made for that.
func (l *Log) isFull(k key) bool {
	if !l.counting.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies.find(k)
	if !t.full || l.closed {
		return false
	}
	t.dropped++
	if l.tallies.keep(k, t) {
		l.tallies.age(l.tell)
	}
	return true
}

// Ended says that an attempt has ended: if lines of it were dropped, a line tells how many,
// and another run of the same number begins with its whole share.
func (l *Log) Ended(id task.ID, attempt uint32) {
	if l == nil || !l.counting.Load() { // handlers that log nothing cost nothing
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	k := key{id, attempt}
	if t := l.tallies.find(k); t.dropped > 0 && !l.tell(k, t.dropped) {
		return // it is told when it is forgotten
	}
	l.tallies.forget(k)
	l.counting.Store(!l.tallies.empty())
}

// Flush returns when what was logged before is written, or lost to the disk. It returns
// ctx's error when that ends first.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	target := l.accepted
	l.mu.Unlock()
	for {
		l.mu.Lock()
		there, changed := l.settled >= target, l.changed
		l.mu.Unlock()
		if there {
			return nil
		}
		signal(l.urgent)
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the task log: %w", context.Cause(ctx))
		}
	}
}

// Changed returns a channel that is closed when something is written after this call.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Close writes what is logged, and nothing after that. What is written can be read still.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	again := l.closed
	if !again {
		l.tallies.each(func(k key, t tally) {
			if t.dropped > 0 {
				l.tell(k, t.dropped)
			}
		})
	}
	l.closed = true
	l.mu.Unlock()
	if !again {
		close(l.closing)
	}
	<-l.done
	return l.outage.failed()
}

// add puts a line in the buffer, if there is room for it.
func (l *Log) add(k key, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	t := l.tallies.find(k)
	switch {
	case t.full:
		t.dropped++
	case t.lines >= l.tallies.lines || t.bytes+len(line) > l.tallies.bytes:
		if t.dropped > 0 && l.tell(k, t.dropped) {
			t.dropped = 0
		}
		t.full = l.remark(k, 0, "the log of this attempt is full: what follows is dropped")
		t.dropped++
	case len(l.buffer)+len(line) > bufferBytes:
		t.dropped++
	default:
		if t.dropped > 0 && l.tell(k, t.dropped) {
			t.dropped = 0
		}
		t.lines++
		t.bytes += len(line)
		l.push(line)
	}
	if l.tallies.keep(k, t) {
		l.tallies.age(l.tell)
	}
	l.counting.Store(true)
}

// tell adds a line that says how many were dropped before it. It reports whether there was
// room for it. It is called with mu held.
func (l *Log) tell(k key, dropped int) bool {
	what := "lines were"
	if dropped == 1 {
		what = "line was"
	}
	return l.remark(k, dropped, fmt.Sprintf("%d %s dropped", dropped, what))
}

// remark adds a line of the log's own, if there is room for it. It is called with mu held.
func (l *Log) remark(k key, dropped int, message string) bool {
	if len(l.buffer) > noteBytes-MaxLine {
		return false
	}
	l.push(l.note(k, dropped, message))
	return true
}

// note returns a line of the log's own.
func (l *Log) note(k key, dropped int, message string) []byte {
	return newEncoder().write(head{key: k, dropped: dropped}, slog.NewRecord(time.Now().UTC(), slog.LevelWarn, message, 0))
}

// push puts a line in the buffer. It is called with mu held.
func (l *Log) push(line []byte) {
	if len(l.buffer) == 0 {
		signal(l.dirty)
	}
	l.buffer = append(l.buffer, line...)
	l.accepted += int64(len(line))
	if len(l.buffer) > bufferBytes/4 {
		signal(l.urgent)
	}
}

// signal puts a token in a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
