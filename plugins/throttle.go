package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/ratelog"
)

// What all processes of one handler may log in a second. Further lines are counted.
const (
	linesPerSecond = 1000
	bytesPerSecond = 1 << 20
)

// What one line of the log may have. The rest is cut.
const (
	messageBytes = 8 << 10
	attrsBytes   = 16 << 10
	attrsCount   = 64
)

// throttle is a [slog.Handler] for lines that a handler program causes. It cuts long lines and bounds the number of lines
// in a second. The first line after dropped lines says how many were dropped.
type throttle struct {
	to    slog.Handler
	limit *ratelog.Limiter // shared with the handlers that are derived from it
}

func newThrottle(to slog.Handler) *throttle {
	return &throttle{to, &ratelog.Limiter{Lines: linesPerSecond, Bytes: bytesPerSecond, Per: time.Second}}
}

var _ slog.Handler = (*throttle)(nil)

// Enabled implements [slog.Handler].
func (t *throttle) Enabled(ctx context.Context, l slog.Level) bool { return t.to.Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (t *throttle) Handle(ctx context.Context, r slog.Record) error {
	r, size := fit(r)
	if !t.limit.AllowSize(size) {
		return nil
	}
	if dropped := t.limit.Dropped(); dropped > 0 {
		r.AddAttrs(slog.Int("lines_dropped_before", dropped))
	}
	return t.to.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (t *throttle) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &throttle{t.to.WithAttrs(attrs), t.limit}
}

// WithGroup implements [slog.Handler].
func (t *throttle) WithGroup(name string) slog.Handler {
	return &throttle{t.to.WithGroup(name), t.limit}
}

// logDropped logs how many lines were dropped since the last line that was logged, if there are any.
func (t *throttle) logDropped() {
	dropped := t.limit.Dropped()
	if ctx := context.Background(); dropped > 0 && t.to.Enabled(ctx, slog.LevelWarn) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "the handler logged more than is kept: lines were dropped", 0)
		r.AddAttrs(slog.Int("lines_dropped_before", dropped))
		_ = t.to.Handle(ctx, r) // as the logger itself does
	}
}

// fit returns r cut to the bounds of a line, and its size in bytes.
func fit(r slog.Record) (out slog.Record, size int) {
	if size = sizeOf(r); size <= messageBytes && r.NumAttrs() <= attrsCount {
		return r, size
	}
	message := shorten(r.Message, messageBytes)
	out = slog.NewRecord(r.Time, r.Level, message, r.PC)
	left, missing := attrsBytes, 0
	r.Attrs(func(a slog.Attr) bool {
		if left <= 0 || out.NumAttrs() == attrsCount {
			missing++
			return true
		}
		a.Key = shorten(a.Key, min(left, messageBytes/8))
		left -= len(a.Key)
		if v := a.Value.Resolve(); len(textOf(v)) > left {
			a.Value = slog.StringValue(shorten(textOf(v), max(0, left)))
		}
		left -= len(textOf(a.Value))
		out.AddAttrs(a)
		return true
	})
	if missing > 0 {
		out.AddAttrs(slog.Int("fields_cut", missing))
	}
	return out, len(message) + attrsBytes - left
}

// sizeOf returns the approximate size of a record in bytes.
func sizeOf(r slog.Record) int {
	size := len(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		size += len(a.Key) + len(textOf(a.Value))
		return true
	})
	return size
}

// textOf returns the text of a value, "" for kinds that are always short.
func textOf(v slog.Value) string {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		return v.String()
	case slog.KindAny, slog.KindGroup:
		return fmt.Sprint(v.Any())
	}
	return ""
}

// shorten returns s if it has at most most bytes. Otherwise it cuts s there and appends how many bytes it cut.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + fmt.Sprintf("… (%d bytes cut)", len(s)-end)
}
