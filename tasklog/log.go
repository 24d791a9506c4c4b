package tasklog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// The bounds of a log that [Options] do not set.
const (
	DefaultMaxBytes     = 256 << 20
	DefaultMemoryBytes  = 16 << 20
	DefaultAttemptLines = 10_000
	DefaultAttemptBytes = 1 << 20

	// MinBytes is the lowest value of [Options].MaxBytes.
	MinBytes = 1 << 20
	// MaxLine is how many bytes a line may have in its segment. The texts of a longer line
	// are cut.
	MaxLine = 16 << 10
)

const (
	// flushEvery is how long a line waits at most until it is written.
	flushEvery = 200 * time.Millisecond
	// bufferBytes is how many bytes of lines may wait to be written. noteBytes is the same
	// together with the log's own lines, which report dropped lines.
	bufferBytes = 4 << 20
	noteBytes   = 2 * bufferBytes
	// keptBytes is the maximum size of an empty buffer to keep.
	keptBytes = 256 << 10
)

// Options bound a log.
type Options struct {
	Dir          string       // of the segments, created with the first line; "" keeps them in memory
	MaxBytes     int64        // of all segments; 0 is 256 MiB, or 16 MiB in memory; at least MinBytes
	AttemptLines int          // of one attempt; 0 is 10 000
	AttemptBytes int          // of one attempt; 0 is 1 MiB
	Log          *slog.Logger // for failures of the disk or the store; nil logs nothing

	// Store keeps the lines; nil: they are in Dir. Dir and MaxBytes have no effect then.
	Store *Stored
}

// Log is a log of tasks. Its methods may be called from any goroutine. A nil Log keeps nothing;
// only its methods Log, Ended and Close may be called.
type Log struct {
	shelf    *shelf  // nil with store
	store    *Stored // nil with shelf
	log      *slog.Logger
	encoders sync.Pool // of *encoder

	dirty   wakeup.Signal // set when the buffer is not empty
	urgent  wakeup.Signal // set when the writer should not wait for more lines
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has ended

	counting atomic.Bool // whether any attempt is counted; changed with mu held

	mu       sync.Mutex
	buffer   []byte        // guarded by mu: lines to be written
	spare    []byte        // guarded by mu: the next buffer
	tallies  tallies       // guarded by mu
	accepted int64         // guarded by mu: bytes that were ever added to the buffer
	settled  int64         // guarded by mu: of these, written or lost
	changed  chan struct{} // guarded by mu: closed when settled grows
	closed   bool          // guarded by mu

	outage outage // owned by the writer
}

// Open returns the log of a folder. No other Log may have the folder open until the caller has
// closed this one. Open does not fail: while the disk is broken, the log drops its lines.
func Open(o Options) *Log {
	if o.Store != nil {
		return open(o, nil, 0)
	}
	var d disk = folder(o.Dir)
	most := int64(DefaultMaxBytes)
	if o.Dir == "" {
		d, most = newMemory(), DefaultMemoryBytes
	}
	return open(o, d, max(MinBytes, cmp.Or(o.MaxBytes, most)))
}

func open(o Options, d disk, most int64) *Log {
	l := &Log{
		store:    o.Store,
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		encoders: sync.Pool{New: func() any { return newEncoder() }},
		dirty:    wakeup.New(), urgent: wakeup.New(),
		closing: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}),
		tallies: tallies{
			lines: cmp.Or(o.AttemptLines, DefaultAttemptLines),
			bytes: cmp.Or(o.AttemptBytes, DefaultAttemptBytes),
		},
	}
	if d != nil {
		l.shelf = newShelf(d, most)
	}
	go l.write()
	return l
}

// IsStored reports whether the lines are in a store, where every node reads them.
func (l *Log) IsStored() bool { return l != nil && l.store != nil }

// Log adds a line about an attempt of a task. It does not wait. A line that does not fit is
// dropped and counted, and so is every line after Close.
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

// isFull reports whether an attempt has used up its share. If so, it counts a dropped line, which
// need not be encoded.
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
		l.tallies.age(l.reportDropped)
	}
	return true
}

// Ended records that an attempt has ended. If lines of it were dropped, a line with their number
// is added. Another run of the same number begins with a full share.
func (l *Log) Ended(id task.ID, attempt uint32) {
	if l == nil || !l.counting.Load() { // handlers that do not log cost nothing
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	k := key{id, attempt}
	if t := l.tallies.find(k); t.dropped > 0 && !l.reportDropped(k, t.dropped) {
		return // the line is added when the tally is dropped
	}
	l.tallies.forget(k)
	l.counting.Store(!l.tallies.empty())
}

// Flush returns when the lines that were logged before are written, or lost because of the disk.
// It returns ctx's error if ctx ends first.
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
		l.urgent.Set()
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

// Close writes the lines that were logged before. Later lines are dropped. The log can still be
// read.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	again := l.closed
	if !again {
		l.tallies.each(func(k key, t tally) {
			if t.dropped > 0 {
				l.reportDropped(k, t.dropped)
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

// add adds a line to the buffer if it fits.
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
		if t.dropped > 0 && l.reportDropped(k, t.dropped) {
			t.dropped = 0
		}
		t.full = l.remark(k, 0, "the log of this attempt is full: further lines are dropped")
		t.dropped++
	case len(l.buffer)+len(line) > bufferBytes:
		t.dropped++
	default:
		if t.dropped > 0 && l.reportDropped(k, t.dropped) {
			t.dropped = 0
		}
		t.lines++
		t.bytes += len(line)
		l.push(line)
	}
	if l.tallies.keep(k, t) {
		l.tallies.age(l.reportDropped)
	}
	l.counting.Store(true)
}

// reportDropped adds a line with the number of lines dropped before it. It reports whether the line
// fitted. It is called with mu held.
func (l *Log) reportDropped(k key, dropped int) bool {
	what := "lines were"
	if dropped == 1 {
		what = "line was"
	}
	return l.remark(k, dropped, fmt.Sprintf("%d %s dropped", dropped, what))
}

// remark adds a line of the log's own if it fits. It is called with mu held.
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

// push appends a line to the buffer. It is called with mu held.
func (l *Log) push(line []byte) {
	if len(l.buffer) == 0 {
		l.dirty.Set()
	}
	l.buffer = append(l.buffer, line...)
	l.accepted += int64(len(line))
	if len(l.buffer) > bufferBytes/4 {
		l.urgent.Set()
	}
}
