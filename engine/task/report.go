package task

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Reporter takes what a handler has to say before its attempt ends. The context that a
// [Handler] is given carries one; its methods may be called from any goroutine until
// Handle returns. [ReportProgress], [SaveCheckpoint] and [Logger] are what handlers use.
type Reporter interface {
	// Progress tells people how far the attempt is. It does not wait.
	Progress(Progress)
	// Checkpoint keeps data for the next attempt, should this one not finish the task. It
	// returns when that is as durable as the reporter can make it, and does not keep data.
	Checkpoint(data []byte) error
	// Log adds a line to the log of the task. It does not wait.
	Log(slog.Record)
}

// ReporterKey is the key of a context's [Reporter].
type ReporterKey struct{}

// ReporterOf returns the reporter of ctx, nil if it has none.
func ReporterOf(ctx context.Context) Reporter {
	r, _ := ctx.Value(ReporterKey{}).(Reporter)
	return r
}

// ReportProgress tells people how far the attempt is that ctx belongs to: done of total,
// which is 0 if nobody knows, in a unit of the handler's own. It may be called often: of
// several within a second only the last is written.
func ReportProgress(ctx context.Context, done, total uint64, message string) {
	if r := ReporterOf(ctx); r != nil {
		r.Progress(Progress{Done: done, Total: total, Message: message, At: time.Now()})
	}
}

// SaveCheckpoint keeps data for the next attempt, should the one that ctx belongs to not
// finish the task: it then finds it in its [Task.Checkpoint]. Without data it removes what
// was kept before.
func SaveCheckpoint(ctx context.Context, data []byte) error {
	if r := ReporterOf(ctx); r != nil {
		return r.Checkpoint(data)
	}
	return nil
}

// Logger returns a logger whose lines go to the log of the task that ctx belongs to.
func Logger(ctx context.Context) *slog.Logger {
	if r := ReporterOf(ctx); r != nil {
		return slog.New(&logHandler{to: r})
	}
	return slog.New(slog.DiscardHandler)
}

// logHandler gives records to a reporter, with what [slog.Logger.With] added.
type logHandler struct {
	to    Reporter
	steps []step
}

// step is one With or WithGroup.
type step struct {
	group string // if not "", what follows is in it
	attrs []slog.Attr
}

func (*logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	if len(h.steps) == 0 {
		h.to.Log(r)
		return nil
	}
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	for _, s := range slices.Backward(h.steps) {
		switch {
		case s.group == "":
			attrs = append(slices.Clone(s.attrs), attrs...)
		case len(attrs) > 0: // an empty group is left out
			attrs = []slog.Attr{slog.GroupAttrs(s.group, attrs...)}
		}
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	out.AddAttrs(attrs...)
	h.to.Log(out)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.with(step{attrs: attrs}) }

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(step{group: name})
}

func (h *logHandler) with(s step) slog.Handler {
	return &logHandler{h.to, append(slices.Clone(h.steps), s)}
}
