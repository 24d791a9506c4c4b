package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// reports are the newest progress and checkpoint, the checks, the reads and the log lines of a run that were not sent yet.
type reports struct {
	progress   *wire.Progress
	checkpoint *wire.Checkpoint
	checks     []*wire.Check
	reads      []*wire.ReadDocument
	lines      []*wire.LogLine
	dropped    int // lines beyond maxLines
}

const (
	maxLines  = 1000     // unsent lines of a run
	maxFields = 64 << 10 // bytes of the fields of a line; further fields are dropped
)

var _ task.Reporter = (*run)(nil)

// Progress implements [task.Reporter].
func (r *run) Progress(p task.Progress) {
	r.report("progress", func(q *reports) {
		q.progress = &wire.Progress{RunId: r.id, Done: p.Done, Total: p.Total, Message: text(p.Message)}
	})
}

// Checkpoint implements [task.Reporter]. It returns nil when the host has stored the checkpoint, or a newer one of the same
// run. It waits for that also while the context of the run has ended, so that a handler that is cancelled can
// say how far it has come. A worker without a connection waits for the next one.
func (r *run) Checkpoint(data []byte) error {
	answer, err := r.save(data)
	if err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-r.session.ctx.Done():
		return fmt.Errorf("whether the checkpoint is stored is unknown: %w", context.Cause(r.session.ctx))
	}
}

// save sends a checkpoint, and returns the channel for the outcome.
func (r *run) save(data []byte) (<-chan error, error) {
	if len(data) > task.MaxCheckpoint {
		return nil, fmt.Errorf("the checkpoint has %d bytes, of %d allowed", len(data), task.MaxCheckpoint)
	}
	if !r.terms.features["checkpoint"] {
		return nil, errors.New("the host stores no checkpoints")
	}
	answer := make(chan error, 1)
	sent := r.report("checkpoint", func(q *reports) {
		r.checkpoints++
		q.checkpoint = &wire.Checkpoint{RunId: r.id, Data: append([]byte{}, data...), Number: r.checkpoints}
		r.saving = append(r.saving, saving{r.checkpoints, answer})
	})
	if !sent {
		return nil, errors.New("the checkpoint comes too late: the attempt is over")
	}
	return answer, nil
}

// saving is a checkpoint that the host has not answered.
type saving struct {
	number uint64
	answer chan<- error // buffered: the one answer never blocks
}

// stored handles the answer of the host to a checkpoint.
func (s *session) stored(k *wire.Stored) {
	var err error
	if k.GetError() != "" {
		err = fmt.Errorf("the host has not stored the checkpoint: %s", k.GetError())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[k.GetRunId()]
	if r == nil {
		return
	}
	if r.latest.checkpoint.GetNumber() == k.GetNumber() {
		r.latest.checkpoint = nil // it need not be sent again
	}
	r.saved(k.GetNumber(), err)
}

// saved ends the waits for checkpoints up to a number. The mutex of the session must be held.
func (r *run) saved(upTo uint64, err error) {
	for len(r.saving) > 0 && r.saving[0].number <= upTo {
		r.saving[0].answer <- err
		r.saving = r.saving[1:]
	}
}

// Log implements [task.Reporter].
func (r *run) Log(record slog.Record) {
	line := &wire.LogLine{
		RunId: r.id, Level: int32(record.Level), Message: text(record.Message), Time: record.Time.UnixMicro(), Fields: map[string]string{},
	}
	left := maxFields
	record.Attrs(func(a slog.Attr) bool { return flatten(line.Fields, &left, "", a) })
	r.report("", func(q *reports) {
		if len(q.lines) == maxLines {
			q.dropped++
			return
		}
		q.lines = append(q.lines, line)
	})
}

// flatten adds an attribute to fields. Attributes of a group get the name of the group and a dot as prefix. It returns
// false when no bytes are left.
func flatten(fields map[string]string, left *int, prefix string, a slog.Attr) bool {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		key, value := text(prefix+a.Key), text(v.String())
		if *left -= len(key) + len(value); *left >= 0 {
			fields[key] = value
		}
		return *left >= 0
	}
	if a.Key != "" {
		prefix += a.Key + "."
	}
	for _, inner := range v.Group() {
		if !flatten(fields, left, prefix, inner) {
			return false
		}
	}
	return true
}

// report changes the reports of r by add and wakes send. It does nothing if the host does not support the feature or if
// the run is answered or cut off, and reports false then.
func (r *run) report(feature string, add func(*reports)) bool {
	s := r.session
	if feature != "" && !r.terms.features[feature] {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[r.id] != r {
		return false
	}
	if r.reports.empty() {
		s.reporting = append(s.reporting, r)
	}
	add(&r.reports)
	if s.kept != nil {
		s.kept.note(r)
	}
	s.wake.Set()
	return true
}

func (q *reports) empty() bool {
	return q.progress == nil && q.checkpoint == nil && len(q.checks)+len(q.reads)+len(q.lines) == 0
}

// takeReports appends the reports of all runs to taken and clears them. mu must be held.
func (s *session) takeReports(taken []reports) []reports {
	for i, r := range s.reporting {
		if n := r.reports.dropped; n > 0 {
			r.reports.lines = append(r.reports.lines, &wire.LogLine{
				RunId: r.id, Level: int32(slog.LevelWarn), Message: fmt.Sprintf("%d lines were dropped", n), Time: time.Now().UnixMicro(),
			})
		}
		taken = append(taken, r.reports)
		r.reports = reports{}
		s.reporting[i] = nil
	}
	s.reporting = s.reporting[:0]
	return taken
}

// sendReports sends reports in frames of at most the agreed size.
func sendReports(to stream, all []reports) error {
	f := frameSender{stream: to, frame: new(wire.FromHandler)}
	for _, r := range all {
		if r.progress != nil {
			f.makeRoom(r.progress)
			f.frame.Progress = append(f.frame.Progress, r.progress)
		}
		if r.checkpoint != nil {
			f.makeRoom(r.checkpoint)
			f.frame.Checkpoints = append(f.frame.Checkpoints, r.checkpoint)
		}
		for _, k := range r.reads {
			f.makeRoom(k)
			f.frame.Reads = append(f.frame.Reads, k)
		}
		for _, k := range r.checks {
			f.makeRoom(k)
			f.frame.Checks = append(f.frame.Checks, k)
		}
		for _, l := range r.lines {
			f.makeRoom(l)
			f.frame.Logs = append(f.frame.Logs, l)
		}
	}
	f.send()
	return f.err
}

// frameSender fills frames and sends them.
type frameSender struct {
	stream   stream
	frame    *wire.FromHandler
	messages int   // in frame
	bytes    int   // of these messages
	err      error // of the first frame that could not be sent
}

// makeRoom sends the frame if m does not fit into it. The caller then adds m.
func (f *frameSender) makeRoom(m proto.Message) {
	size := proto.Size(m)
	if f.messages == wire.FrameMessages || f.bytes+size > wire.FrameBytes {
		f.send()
	}
	f.messages++
	f.bytes += size
}

// send sends the frame if it is not empty.
func (f *frameSender) send() {
	if f.messages > 0 && f.err == nil {
		f.err = f.stream.Send(f.frame)
	}
	f.frame, f.messages, f.bytes = new(wire.FromHandler), 0, 0
}
