package handlers

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

const (
	lineBytes      = 8 << 10 // of one line; the rest of it is left out
	linesPerSecond = 1000    // that are logged; the rest is counted
)

// lines logs text line by line for a task.
type lines struct {
	to      task.Reporter // nil if nothing is logged
	line    []byte        // the line that has not ended, at most lineBytes of it
	cut     int           // bytes of the line that were left out
	second  int64         // Unix time for which logged counts
	logged  int           // in this second
	dropped int           // lines not logged since the last that was
}

func (l *lines) take(b []byte) {
	if l.to == nil {
		return
	}
	for {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		room := min(len(part), lineBytes-len(l.line))
		l.line = append(l.line, part[:room]...)
		l.cut += len(part) - room
		if !ended {
			return
		}
		l.log()
		b = rest
	}
}

// end logs a last line that has no newline, and how many lines were not logged.
func (l *lines) end() {
	if l.to == nil {
		return
	}
	l.log()
	if l.dropped > 0 {
		l.to.Log(slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("%d more lines were not logged", l.dropped), 0))
	}
}

func (l *lines) log() {
	text := strings.ToValidUTF8(string(bytes.TrimRight(l.line, "\r")), "\uFFFD")
	cut := l.cut
	l.line, l.cut = l.line[:0], 0
	if text == "" && cut == 0 {
		return
	}
	now := time.Now()
	if s := now.Unix(); s != l.second {
		l.second, l.logged = s, 0
	}
	if l.logged == linesPerSecond {
		l.dropped++
		return
	}
	l.logged++
	record := slog.NewRecord(now, slog.LevelInfo, text, 0)
	record.AddAttrs(slog.String("stream", "stderr"))
	if cut > 0 {
		record.AddAttrs(slog.Int("bytes_cut", cut))
	}
	if l.dropped > 0 {
		record.AddAttrs(slog.Int("lines_dropped_before", l.dropped))
		l.dropped = 0
	}
	l.to.Log(record)
}
