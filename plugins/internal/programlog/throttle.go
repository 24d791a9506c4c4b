// Package programlog logs the output of handler programs, bounded and printable.
package programlog

import (
	"context"
	"log/slog"
	"time"

	"github.com/taskengine/taskengine/internal/ratelog"
)

// LinesPerSecond is how many lines all processes of one handler may log in a second. Further lines are counted.
const LinesPerSecond = 1000

// bytesPerSecond is how many bytes these lines may have.
const bytesPerSecond = 1 << 20

// Bounds of one line of the log. The rest is cut.
const (
	messageBytes = 8 << 10
	attrsBytes   = 16 << 10
	attrsCount   = 64
)

// Throttle is a [slog.Handler] for lines that a handler program causes. It cuts long lines and bounds the number of lines
// in a second. The first line after dropped lines says how many were dropped.
type Throttle struct {
	to    slog.Handler
	limit *ratelog.Limiter // shared with the handlers that are derived from it
}

// NewThrottle returns a Throttle for the lines of one handler, which it passes on to a handler of package slog.
func NewThrottle(to slog.Handler) *Throttle {
	return &Throttle{to, &ratelog.Limiter{Lines: LinesPerSecond, Bytes: bytesPerSecond, Per: time.Second}}
}

var _ slog.Handler = (*Throttle)(nil)

// Enabled implements [slog.Handler].
func (t *Throttle) Enabled(ctx context.Context, l slog.Level) bool { return t.to.Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (t *Throttle) Handle(ctx context.Context, r slog.Record) error {
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
func (t *Throttle) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Throttle{t.to.WithAttrs(attrs), t.limit}
}

// WithGroup implements [slog.Handler].
func (t *Throttle) WithGroup(name string) slog.Handler {
	return &Throttle{t.to.WithGroup(name), t.limit}
}

// LogDropped logs how many lines were dropped since the last line that was logged, if there are any.
func (t *Throttle) LogDropped() {
	dropped := t.limit.Dropped()
	if ctx := context.Background(); dropped > 0 && t.to.Enabled(ctx, slog.LevelWarn) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "the handler logged more than is kept: lines were dropped", 0)
		r.AddAttrs(slog.Int("lines_dropped_before", dropped))
		_ = t.to.Handle(ctx, r) // as the logger itself does
	}
}
