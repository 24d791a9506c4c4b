package handler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// says is what the handler of a run has said and nobody has sent yet: of progress and
// checkpoints only the newest.
type says struct {
	progress   *wire.Progress
	checkpoint *wire.Checkpoint
	lines      []*wire.LogLine
	dropped    int // lines that were too many
}

const (
	maxLines  = 1000     // lines of a run that may wait to be sent
	maxFields = 64 << 10 // bytes of the fields of a line: more are left out
)

var _ task.Reporter = (*run)(nil)

// Progress implements [task.Reporter].
func (r *run) Progress(p task.Progress) {
	r.say("progress", func(s *says) {
		s.progress = &wire.Progress{RunId: r.id, Done: p.Done, Total: p.Total, Message: text(p.Message)}
	})
}

// Checkpoint implements [task.Reporter]: the host keeps the checkpoint before it takes
// the answer of the attempt.
func (r *run) Checkpoint(data []byte) error {
	if len(data) > task.MaxCheckpoint {
		return fmt.Errorf("the checkpoint has %d bytes, of %d allowed", len(data), task.MaxCheckpoint)
	}
	if !r.shift.features["checkpoint"] {
		return errors.New("the host keeps no checkpoints")
	}
	r.say("checkpoint", func(s *says) {
		s.checkpoint = &wire.Checkpoint{RunId: r.id, Data: append([]byte{}, data...)}
	})
	return nil
}

// Log implements [task.Reporter].
func (r *run) Log(record slog.Record) {
	line := &wire.LogLine{
		RunId: r.id, Level: int32(record.Level), Message: text(record.Message), Time: record.Time.UnixMicro(), Fields: map[string]string{},
	}
	left := maxFields
	record.Attrs(func(a slog.Attr) bool { return flatten(line.Fields, &left, "", a) })
	r.say("", func(s *says) {
		if len(s.lines) == maxLines {
			s.dropped++
			return
		}
		s.lines = append(s.lines, line)
	})
}

// flatten adds an attribute to fields, those of a group with its name and a dot before, as
// long as bytes are left. It returns false when there are none.
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

// say changes what r has to say and has it sent, if the host serves the feature and the
// run is not answered.
func (r *run) say(feature string, add func(*says)) {
	s := r.shift
	if feature != "" && !s.features[feature] {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[r.id] != r {
		return
	}
	if r.says.empty() {
		s.talking = append(s.talking, r)
	}
	add(&r.says)
	s.wake.Set()
}

func (s *says) empty() bool { return s.progress == nil && s.checkpoint == nil && len(s.lines) == 0 }

// hear takes what runs have said and appends it to said. It is called with mu held.
func (s *shift) hear(said []says) []says {
	for i, r := range s.talking {
		if n := r.says.dropped; n > 0 {
			r.says.lines = append(r.says.lines, &wire.LogLine{
				RunId: r.id, Level: int32(slog.LevelWarn), Message: fmt.Sprintf("%d lines were dropped", n), Time: time.Now().UnixMicro(),
			})
		}
		said = append(said, r.says)
		r.says = says{}
		s.talking[i] = nil
	}
	s.talking = s.talking[:0]
	return said
}

// relay sends what runs have said, in frames of the size that a host takes.
func relay(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler], said []says) error {
	t := talk{stream: stream, frame: new(wire.FromHandler)}
	for _, s := range said {
		if s.progress != nil {
			t.makeRoom(s.progress)
			t.frame.Progress = append(t.frame.Progress, s.progress)
		}
		if s.checkpoint != nil {
			t.makeRoom(s.checkpoint)
			t.frame.Checkpoints = append(t.frame.Checkpoints, s.checkpoint)
		}
		for _, l := range s.lines {
			t.makeRoom(l)
			t.frame.Logs = append(t.frame.Logs, l)
		}
	}
	t.send()
	return t.err
}

// talk fills frames with what runs have said.
type talk struct {
	stream   grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]
	frame    *wire.FromHandler
	messages int // in the frame
	bytes    int // of them
	err      error
}

// makeRoom sends the frame if m, which will be added, does not fit in any more.
func (t *talk) makeRoom(m proto.Message) {
	size := proto.Size(m)
	if t.messages == wire.FrameMessages || t.bytes+size > wire.FrameBytes {
		t.send()
	}
	t.messages++
	t.bytes += size
}

// send sends the frame, if there is something in it.
func (t *talk) send() {
	if t.messages > 0 && t.err == nil {
		t.err = t.stream.Send(t.frame)
	}
	t.frame, t.messages, t.bytes = new(wire.FromHandler), 0, 0
}

// features returns those that the host serves.
func features(w *wire.Welcome) map[string]bool {
	out := make(map[string]bool)
	for _, f := range w.GetFeatures() {
		out[f] = true
	}
	return out
}
