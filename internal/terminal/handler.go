package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options are the options of [NewHandler].
type Options struct {
	Level  slog.Level // the lowest that is written
	Colour bool       // sets levels and keys apart by colours
}

// NewHandler returns a handler that writes records as lines of text: the time of day, the level,
// the message and the attributes. No content of a record can control the terminal.
func NewHandler(w io.Writer, o Options) slog.Handler {
	return &handler{options: o, out: &output{w: w}}
}

type handler struct {
	options Options
	out     *output
	attrs   string // of WithAttrs, as they are written
	groups  string // of WithGroup, each with a dot behind it
}

// output is shared by a handler and the handlers derived from it.
type output struct {
	mu sync.Mutex // held while a line is written
	w  io.Writer
}

var _ slog.Handler = (*handler)(nil)

// Enabled implements [slog.Handler].
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.options.Level }

// Handle implements [slog.Handler].
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(h.paint(faint, r.Time.Format(time.TimeOnly+".000")))
		b.WriteByte(' ')
	}
	b.WriteString(h.level(r.Level))
	b.WriteByte(' ')
	b.WriteString(Line(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.write(&b, h.groups, a)
		return true
	})
	b.WriteByte('\n')
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := io.WriteString(h.out.w, b.String())
	return err
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		h.write(&b, h.groups, a)
	}
	c := *h
	c.attrs += b.String()
	return &c
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.groups += name + "."
	return &c
}

// write writes an attribute. Attributes of a group have its name and a dot in front.
func (h *handler) write(b *strings.Builder, groups string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			groups += a.Key + "."
		}
		for _, inner := range v.Group() {
			h.write(b, groups, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	b.WriteByte(' ')
	b.WriteString(h.paint(faint, quote(groups+a.Key)+"="))
	b.WriteString(quote(textOf(v)))
}

func textOf(v slog.Value) (s string) {
	if v.Kind() == slog.KindTime {
		return v.Time().Format("2006-01-02T15:04:05.000Z07:00")
	}
	if b, ok := v.Any().([]byte); ok {
		return string(b)
	}
	defer func() { // a method of the value panicked, as on a nil pointer
		if p := recover(); p != nil {
			s = fmt.Sprintf("!PANIC: %v", p)
		}
	}()
	return v.String()
}

// quote returns s in quotes if it could be confused with the text around it.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, ` ="`) || Line(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// style is the number of an attribute or colour of a terminal.
type style int

const (
	faint  style = 2
	green  style = 92
	yellow style = 93
	red    style = 91
)

// paint returns s in a style if styles are on.
func (h *handler) paint(as style, s string) string {
	if !h.options.Colour {
		return s
	}
	return "\x1b[" + strconv.Itoa(int(as)) + "m" + s + "\x1b[0m"
}

// level formats a level.
func (h *handler) level(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return h.paint(red, "ERR"+offset(l-slog.LevelError))
	case l >= slog.LevelWarn:
		return h.paint(yellow, "WRN"+offset(l-slog.LevelWarn))
	case l >= slog.LevelInfo:
		return h.paint(green, "INF"+offset(l-slog.LevelInfo))
	}
	return "DBG" + offset(l-slog.LevelDebug)
}

// offset formats the distance between a level and the named level below it.
func offset(by slog.Level) string {
	if by == 0 {
		return ""
	}
	return fmt.Sprintf("%+d", int(by))
}
