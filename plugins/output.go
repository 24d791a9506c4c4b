package plugins

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/task"
)

const (
	tailBytes      = 8 << 10 // kept of the end of the output of a process
	lineBytes      = 8 << 10 // kept of one line
	handshakeBytes = 1 << 10 // kept of the handshake line
	bannerLines    = 100     // of the standard output; the handshake must be among them

	errorTail = task.MaxErrorText * 3 / 4 // bytes of the end of the output in the error of a task
)

// output reads the output of one process. It logs the lines, cut and throttled, and keeps the last bytes. It always
// reads to the end, so that the process never blocks.
type output struct {
	log  *slog.Logger // throttled
	tail *supervise.Tail

	mu   sync.Mutex
	only func() *call // guarded by mu: see setOnlyCall
}

func newOutput(log *slog.Logger) *output {
	return &output{log: log, tail: supervise.NewTail(tailBytes)}
}

// setOnlyCall sets the function that returns the call that the process runs, or nil if it runs none or several. Lines
// are attributed to the task of that call.
func (o *output) setOnlyCall(only func() *call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.only = only
}

// emit adds a line to the log of the task of c, unless c is nil, and to the log of the program. The former has its own
// limits, the latter is throttled.
func (o *output) emit(c *call, r slog.Record) {
	if c == nil {
		programlog.Emit(o.log, nil, task.ID{}, r)
		return
	}
	programlog.Emit(o.log, c.Reporter, c.ID(), r)
}

// handshake reads up to the handshake line, and returns it. Lines before it, such as the output of `npm start` or the
// banner of a library, are logged. If none of bannerLines lines is a handshake, or one is longer than the buffer of in,
// handshake returns the start of the last line that it has read.
func (o *output) handshake(in *bufio.Reader) string {
	for n := 1; ; n++ {
		part, err := in.ReadSlice('\n')
		o.tail.Write(part)
		line := strings.TrimRight(string(part), "\r\n")
		if isHandshake(line) || err != nil || n == bannerLines {
			return programlog.Printable(line[:min(len(line), handshakeBytes)])
		}
		if kept := line[:min(len(line), lineBytes)]; kept != "" {
			o.print("stdout", []byte(kept), len(line)-len(kept))
		}
	}
}

// isHandshake reports whether a line has the form of a handshake: a version, and further fields between bars.
func isHandshake(line string) bool {
	version, rest, ok := strings.Cut(line, "|")
	_, err := strconv.ParseUint(version, 10, 32)
	return ok && err == nil && strings.Count(rest, "|") >= 2
}

// read logs the lines of in up to its end.
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

// line reads up to the next newline or the end. It returns the start of the line and the number of bytes that it cut.
func (o *output) line(in *bufio.Reader) (line []byte, cut int, err error) {
	for {
		part, err := in.ReadSlice('\n')
		o.tail.Write(part)
		keep := min(len(part), lineBytes-len(line))
		line = append(line, part[:keep]...)
		cut += len(part) - keep
		if err != bufio.ErrBufferFull {
			return []byte(strings.TrimRight(string(line), "\r\n")), cut, err
		}
	}
}

// last returns the end of the output as printable text.
func (o *output) last() string {
	text, _ := o.tail.Text()
	text = programlog.Printable(text)
	return strings.ToValidUTF8(text[max(0, len(text)-tailBytes):], "")
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

// parseLine returns the level, message and attributes of a line. It understands the JSON of hclog and slog; any other
// line is a message.
func parseLine(line []byte) (slog.Level, string, []slog.Attr) {
	plain := func() (slog.Level, string, []slog.Attr) {
		return slog.LevelInfo, programlog.Printable(string(line)), nil
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
		attrs = append(attrs, slog.Any(programlog.Printable(k), v))
	}
	return parseLevel(level), programlog.Printable(message), attrs
}

// takeText removes the first field in names that is a string, and returns it.
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

// quoteTail formats the end of the output of a process for the end of an error. It cuts the text to errorTail.
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
