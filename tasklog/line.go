package tasklog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/task"
)

// Line is a line of a task's log.
type Line struct {
	Attempt uint32
	Time    time.Time // as it was logged
	Level   slog.Level
	Message string
	Attrs   json.RawMessage // an object, groups being objects in it; nil if there are none
	Dropped int             // how many lines are missing here; 0 for a line that was logged
	Cut     bool            // it was too long, and texts in it are cut
	Node    string          // that logged it, if it was in a store
}

// stored is a line in its segment. The id comes first: see [lineID].
type stored struct {
	Task    task.ID `json:"task"`
	Attempt uint32  `json:"attempt"`
	Dropped int     `json:"dropped"`
	Cut     bool    `json:"cut"`
	Log     struct {
		Time    time.Time       `json:"time"`
		Level   slog.Level      `json:"level"`
		Message string          `json:"msg"`
		Attrs   json.RawMessage `json:"attrs"`
	} `json:"log"`
}

// A line begins with its task.
const (
	linePrefix = `{"task":"`
	idLength   = 36
)

// lineID returns the task of a line, and whether the line has one.
func lineID(line []byte) (task.ID, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(linePrefix))
	if !ok || len(rest) < idLength {
		return task.ID{}, false
	}
	id, err := task.ParseID(string(rest[:idLength]))
	return id, err == nil
}

// decode decodes a line of a segment. It returns an error for a line that a crash has cut.
func decode(line []byte) (Line, error) {
	var s stored
	if err := json.Unmarshal(line, &s); err != nil {
		return Line{}, fmt.Errorf("read a line: %w", err)
	}
	if s.Log.Time.IsZero() {
		return Line{}, errors.New("read a line: it has no time")
	}
	return Line{
		Attempt: s.Attempt, Time: s.Log.Time, Level: s.Log.Level, Message: s.Log.Message,
		Attrs: s.Log.Attrs, Dropped: s.Dropped, Cut: s.Cut,
	}, nil
}

// encoder encodes lines. It is used by one goroutine at a time.
type encoder struct {
	buf     []byte
	handler slog.Handler // writes records to buf
}

// head has the fields of a line apart from the record.
type head struct {
	key
	dropped int
	cut     bool
}

func newEncoder() *encoder {
	e := new(encoder)
	// The group keeps the keys of the handler, such as "msg", apart from attributes of the same name.
	e.handler = slog.NewJSONHandler(e, &slog.HandlerOptions{Level: slog.Level(math.MinInt)}).WithGroup("attrs")
	return e
}

// Write implements [io.Writer] for the handler.
func (e *encoder) Write(p []byte) (int, error) {
	e.buf = append(e.buf, p...)
	return len(p), nil
}

// shrink releases a buffer that has become large by one line.
func (e *encoder) shrink() {
	if cap(e.buf) > 2*MaxLine {
		e.buf = nil
	}
}

// encode encodes a record as a line, and cuts it if it is too long. The line is valid until the
// next call.
func (e *encoder) encode(k key, r slog.Record) []byte {
	r.Time = r.Time.UTC()
	if y := r.Time.Year(); y < 1970 || y > 9999 { // it is missing or wrong
		r.Time = time.Now().UTC()
	}
	line := e.write(head{key: k}, r)
	for _, most := range []int{MaxLine / 2, MaxLine / 16, MaxLine / 128} {
		if len(line) <= MaxLine {
			return line
		}
		line = e.write(head{key: k, cut: true}, cutRecord(r, most))
	}
	if len(line) > MaxLine { // it has too many attributes
		line = e.write(head{key: k, cut: true}, slog.NewRecord(r.Time, r.Level, cutText(r.Message, MaxLine/8), 0))
	}
	return line
}

// write encodes a record as a line of any length.
func (e *encoder) write(h head, r slog.Record) []byte {
	b := append(e.buf[:0], linePrefix...)
	b, _ = h.id.AppendText(b)
	b = strconv.AppendUint(append(b, `","attempt":`...), uint64(h.attempt), 10)
	if h.dropped > 0 {
		b = strconv.AppendInt(append(b, `,"dropped":`...), int64(h.dropped), 10)
	}
	if h.cut {
		b = append(b, `,"cut":true`...)
	}
	e.buf = append(b, `,"log":`...)
	_ = e.handler.Handle(context.Background(), r) // writes to memory
	e.buf = append(bytes.TrimSuffix(e.buf, []byte("\n")), "}\n"...)
	return e.buf
}

// cutRecord returns a copy of r with texts of at most most bytes each.
func cutRecord(r slog.Record, most int) slog.Record {
	short := slog.NewRecord(r.Time, r.Level, cutText(r.Message, most), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(cutAttr(a, most))
		return true
	})
	return short
}

func cutAttr(a slog.Attr, most int) slog.Attr {
	a.Key = cutText(a.Key, most)
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindGroup:
		inner := make([]slog.Attr, len(v.Group()))
		for i, in := range v.Group() {
			inner[i] = cutAttr(in, most)
		}
		a.Value = slog.GroupValue(inner...)
	case slog.KindString, slog.KindAny:
		if s := v.String(); len(s) > most {
			a.Value = slog.StringValue(cutText(s, most))
		}
	}
	return a
}

// cutText returns text of at most this number of bytes, or little more, that says that it was cut.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + "…"
}
