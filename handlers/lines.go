package handlers

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/task"
)

const (
	lineBytes      = 8 << 10 // that are logged of one line; the rest is dropped
	linesPerSecond = 1000    // that are logged; the rest are counted
)

// lines is a writer that logs text for a task, line by line.
type lines struct {
	to    task.Reporter // nil if nothing is logged
	line  []byte        // the line that has not ended, at most lineBytes of it
	cut   int           // bytes of this line that were dropped
	limit ratelog.Limiter
}

func newLines(to task.Reporter) *lines {
	return &lines{to: to, limit: ratelog.Limiter{Lines: linesPerSecond, Per: time.Second}}
}

// Write implements [io.Writer]. It never fails.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	if l.to == nil {
		return n, nil
	}
	for {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		room := min(len(part), lineBytes-len(l.line))
		l.line = append(l.line, part[:room]...)
		l.cut += len(part) - room
		if !ended {
			return n, nil
		}
		l.log()
		b = rest
	}
}

// end logs the last line if it has no newline, and how many lines were dropped.
func (l *lines) end() {
	if l.to == nil {
		return
	}
	l.log()
	if dropped := l.limit.Dropped(); dropped > 0 {
		l.to.Log(slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("%d more lines were not logged", dropped), 0))
	}
}

func (l *lines) log() {
	text := strings.ToValidUTF8(string(bytes.TrimRight(l.line, "\r")), "\uFFFD")
	cut := l.cut
	l.line, l.cut = l.line[:0], 0
	if text == "" && cut == 0 {
		return
	}
	if !l.limit.Allow() {
		return
	}
	record := slog.NewRecord(time.Now(), slog.LevelInfo, text, 0)
	record.AddAttrs(slog.String("stream", "stderr"))
	if cut > 0 {
		record.AddAttrs(slog.Int("bytes_cut", cut))
	}
	if dropped := l.limit.Dropped(); dropped > 0 {
		record.AddAttrs(slog.Int("lines_dropped_before", dropped))
	}
	l.to.Log(record)
}
