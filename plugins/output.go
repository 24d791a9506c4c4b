package plugins

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

const (
	tailBytes      = 8 << 10 // of a process's last output, kept for the error of its crash
	lineBytes      = 8 << 10 // of one line; the rest of it is dropped
	handshakeBytes = 1 << 10 // of the handshake line

	errorTail = task.MaxErrorText * 3 / 4 // of that a task's error gets: a row keeps no more
)

// output reads what a process writes, however much and whatever it is: lines go to
// the log, cut and throttled, and the last bytes are kept. Reading never stops before
// the end, so the process never waits for it.
type output struct {
	log *slog.Logger // throttled

	mu   sync.Mutex // guards what follows
	tail []byte     // at most 2*tailBytes, the newest last
	only func() *call
}

// attribute has lines be of the task whose call only returns, if it is the only one that
// the process runs.
func (o *output) attribute(only func() *call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.only = only
}

// emit adds a line to the log of the task of c, which bounds itself, unless c is nil, and logs
// it as far as the plugin may.
func (o *output) emit(c *call, r slog.Record) {
	if c != nil && c.reporter != nil {
		c.reporter.Log(r.Clone())
	}
	ctx := context.Background()
	if !o.log.Enabled(ctx, r.Level) {
		return
	}
	if c != nil {
		r.AddAttrs(slog.String("task_id", c.id().String()))
	}
	_ = o.log.Handler().Handle(ctx, r) // as the logger itself does
}

// handshake reads the first line of r, or the start of what is no handshake because it is
// too long.
func (o *output) handshake(in *bufio.Reader) string {
	line, _ := in.ReadSlice('\n')
	o.remember(line)
	return printable(strings.TrimRight(string(line[:min(len(line), handshakeBytes)]), "\r\n"))
}

// read consumes in to its end.
func (o *output) read(in *bufio.Reader, stream string) {
	for {
		line, cut, err := o.line(in)
		if len(line) > 0 {
			o.print(stream, line, cut)
		}
		if err != nil {
			return
		}
	}
}

// line reads up to the next newline, or the end, and returns the start of what it
// read and how many bytes it left out.
func (o *output) line(in *bufio.Reader) (line []byte, cut int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		o.remember(part)
		keep := min(len(part), lineBytes-len(line))
		line = append(line, part[:keep]...)
		cut += len(part) - keep
		if err != bufio.ErrBufferFull {
			return []byte(strings.TrimRight(string(line), "\r\n")), cut, err
		}
	}
}

func (o *output) remember(part []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(part) >= tailBytes {
		o.tail = append(o.tail[:0], part[len(part)-tailBytes:]...)
		return
	}
	if len(o.tail)+len(part) > 2*tailBytes {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-tailBytes:]...)
	}
	o.tail = append(o.tail, part...)
}

// last returns the newest output, readable whatever it was.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := strings.TrimSpace(printable(string(o.tail)))
	return strings.ToValidUTF8(tail[max(0, len(tail)-tailBytes):], "")
}

func (o *output) print(stream string, line []byte, cut int) {
	level, message, attrs := parseLine(line)
	attrs = append(attrs, slog.String("stream", stream))
	if cut > 0 {
		attrs = append(attrs, slog.Int("bytes_cut", cut))
	}
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.AddAttrs(attrs...)
	o.mu.Lock()
	only := o.only
	o.mu.Unlock()
	var c *call
	if only != nil {
		c = only()
	}
	o.emit(c, record)
}

// parseLine makes a log record of a line: of a JSON object as hclog and slog write
// them, or of any text.
func parseLine(line []byte) (slog.Level, string, []slog.Attr) {
	plain := func() (slog.Level, string, []slog.Attr) {
		return slog.LevelInfo, printable(string(line)), nil
	}
	if line[0] != '{' {
		return plain()
	}
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return plain()
	}
	message, ok := takeText(fields, "@message", "msg", "message")
	if !ok {
		return plain()
	}
	level, _ := takeText(fields, "@level", "level")
	takeText(fields, "@timestamp", "time", "timestamp")
	attrs := make([]slog.Attr, 0, len(fields)+3)
	for k, v := range fields {
		attrs = append(attrs, slog.Any(printable(k), v))
	}
	return parseLevel(level), printable(message), attrs
}

// takeText removes the first of names that fields has as a text, and returns it.
func takeText(fields map[string]any, names ...string) (string, bool) {
	for _, name := range names {
		if text, ok := fields[name].(string); ok {
			delete(fields, name)
			return text, true
		}
	}
	return "", false
}

func parseLevel(s string) slog.Level {
	switch strings.ToLower(s) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error", "fatal", "critical":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// printable replaces what is not text: broken UTF-8 and control characters other than
// newlines and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < ' ' || r == 0x7f {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// quoteTail words what a process last wrote, for the end of an error: only the end
// of it, of which the errors of tasks have room for.
func quoteTail(s string) string {
	if len(s) > errorTail {
		s = strings.ToValidUTF8(s[len(s)-errorTail:], "")
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		}
	}
	if s == "" {
		return ""
	}
	return "; its last output:\n" + s
}
