package tasklog

import (
	"bytes"
	"fmt"
	"time"
)

// retryAfter is how long a disk that has failed is not used.
const retryAfter = 5 * time.Second

// outage is the state of a disk that fails.
type outage struct {
	cause error // nil while the disk does not fail
	lost  int   // lines since the disk fails
	until time.Time
}

// failed returns the error of the outage, with the number of lost lines.
func (o *outage) failed() error {
	if o.cause == nil {
		return nil
	}
	return fmt.Errorf("%d lines of the task log are lost: %w", o.lost, o.cause)
}

// write is the writer: it writes lines until the log is closed. While there are none, it sleeps.
func (l *Log) write() {
	defer close(l.done)
	for open := true; open; {
		select {
		case <-l.dirty.C():
			l.gather()
		case <-l.closing:
			open = false
		}
		l.flush()
	}
	if l.store != nil {
		return
	}
	if err := l.shelf.leave(); err != nil {
		l.log.Warn("closing the task log did not go well", "error", err)
	}
}

// gather waits for more lines, to write them together.
func (l *Log) gather() {
	every := flushEvery
	if l.store != nil {
		every = StoreEvery
	}
	t := time.NewTimer(every)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.urgent.C():
	case <-l.closing:
	}
}

// flush writes the lines in the buffer.
func (l *Log) flush() {
	l.mu.Lock()
	batch := l.buffer
	l.buffer, l.spare = l.spare[:0], nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	l.put(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled += int64(len(batch))
	if cap(batch) <= keptBytes || len(batch) > cap(batch)/4 {
		l.spare = batch
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// put writes lines, or counts them as lost while the disk fails.
func (l *Log) put(batch []byte) {
	o := &l.outage
	if o.cause != nil && time.Now().Before(o.until) {
		o.lost += bytes.Count(batch, []byte("\n"))
		return
	}
	rest, err := l.keep(batch)
	switch {
	case err != nil:
		if o.cause == nil {
			l.log.Warn("the task log cannot be written: lines are lost until it can; tasks are not affected", "error", err)
		}
		o.cause, o.until = err, time.Now().Add(retryAfter)
		o.lost += bytes.Count(rest, []byte("\n"))
	case o.cause != nil:
		l.log.Info("the task log is written again", "lines_lost", o.lost)
		*o = outage{}
	}
}

// keep writes lines to the disk or to the store. It returns the lines that were not written, and the error.
func (l *Log) keep(lines []byte) (rest []byte, err error) {
	if l.store == nil {
		return l.shelf.append(lines)
	}
	patience := storePatience
	if l.outage.cause != nil {
		patience = 0
	}
	return l.store.append(lines, patience, l.closing)
}
